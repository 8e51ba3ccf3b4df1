"""What a fence lets through: the rows of these claims, in these versions and of these executors, and no others."""

from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks.models import Task
from django_delayed_tasks.store.sql.fences import Claim, Seen, fence, in_status, unchanged
from django_delayed_tasks.store.sql.tables import PENDING, RUNNING, TASK
from tests.store import verbs
from tests.store.verbs import EXECUTOR

pytestmark = pytest.mark.usefixtures("db", "frozen")


def found(condition: str) -> list[str]:
    """The numbers of the rows that it holds for."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT biz_num FROM {TASK} WHERE {condition} ORDER BY biz_num")
        return [num for (num,) in cursor.fetchall()]


@pytest.fixture
def claims() -> dict[str, Claim]:
    """Tasks in the versions 0, 1 and 2; the first two of an executor, the last one of none that is known."""
    for num in "abc":
        verbs.add(num)
    verbs.add("b")
    verbs.add("c")
    verbs.add("c")
    Task._base_manager.update(executor=EXECUTOR)
    Task._base_manager.filter(biz_num="c").update(executor=None)
    return {task.biz_num: Claim(task.pk, task.version, task.executor) for task in Task.objects.all()}


def test_of_none_it_holds_for_none(claims: dict[str, Claim]) -> None:
    """A statement with the fence of an empty batch must not write to every row there is."""
    assert found(fence([])) == found(unchanged([])) == []


def test_of_some_it_holds_for_these(claims: dict[str, Claim]) -> None:
    assert found(fence([claims["a"], claims["c"]])) == ["a", "c"]


def test_another_version_is_another_claim(claims: dict[str, Claim]) -> None:
    newer = [claim._replace(version=claim.version + 1) for claim in claims.values()]
    older = [claim._replace(version=claim.version - 1) for claim in claims.values()]
    assert found(fence(newer)) == found(fence(older)) == []


@pytest.mark.parametrize("other", [EXECUTOR + 1, 0, 2**52 - 1])
def test_that_of_another_executor_is_another_claim(claims: dict[str, Claim], other: int) -> None:
    assert found(fence(claim._replace(executor=other) for claim in claims.values())) == []
    assert found(fence([claims["a"]._replace(executor=None), claims["c"]])) == ["c"]


def test_what_was_seen_is_of_any_executor(claims: dict[str, Claim]) -> None:
    seen: list[Seen] = [claim[:2] for claim in claims.values()]
    assert found(unchanged(seen)) == ["a", "b", "c"]
    assert found(unchanged((pk, version + 1) for pk, version in seen)) == []


def test_a_status_next_to_it(claims: dict[str, Claim]) -> None:
    assert found(f"{fence(claims.values())} AND {in_status(PENDING)}") == ["a", "b", "c"]
    assert found(f"{fence(claims.values())} AND {in_status(RUNNING)}") == []


@pytest.mark.parametrize("claim", [("1) OR (1 = 1", 1, 7), (1, "1 OR 1 = 1", 7), (1, 1, "7 OR 1 = 1")])
def test_only_integers_are_written_into_the_statement(claim: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        fence([Claim(*claim)])


@pytest.mark.parametrize("seen", [("1) OR (1 = 1", 1), (1, "1 OR 1 = 1")])
def test_nor_of_what_was_seen(seen: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        unchanged([seen])

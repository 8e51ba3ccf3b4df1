"""What a fence lets through: the rows of these claims in these versions, and no others."""

from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks.models import Task
from django_delayed_tasks.store.sql.fences import Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import PENDING, RUNNING, TASK
from tests.store import verbs

pytestmark = pytest.mark.usefixtures("db", "frozen")


def found(condition: str) -> list[str]:
    """The numbers of the rows that it holds for."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT biz_num FROM {TASK} WHERE {condition} ORDER BY biz_num")
        return [num for (num,) in cursor.fetchall()]


@pytest.fixture
def claims() -> dict[str, Claim]:
    """Two tasks in version 1, one in version 2."""
    for num in "abc":
        verbs.add(num)
    verbs.add("b")
    verbs.add("c")
    verbs.add("c")
    return {task.biz_num: (task.pk, task.version) for task in Task.objects.all()}


def test_of_none_it_holds_for_none(claims: dict[str, Claim]) -> None:
    """A statement with the fence of an empty batch must not write to every row there is."""
    assert found(fence([])) == []


def test_of_some_it_holds_for_these(claims: dict[str, Claim]) -> None:
    assert found(fence([claims["a"], claims["c"]])) == ["a", "c"]


def test_another_version_is_another_claim(claims: dict[str, Claim]) -> None:
    newer = {num: (pk, version + 1) for num, (pk, version) in claims.items()}
    older = {num: (pk, version - 1) for num, (pk, version) in claims.items()}
    assert found(fence(newer.values())) == found(fence(older.values())) == []


def test_a_status_next_to_it(claims: dict[str, Claim]) -> None:
    assert found(f"{fence(claims.values())} AND {in_status(PENDING)}") == ["a", "b", "c"]
    assert found(f"{fence(claims.values())} AND {in_status(RUNNING)}") == []


@pytest.mark.parametrize("claim", [("1) OR (1 = 1", 1), (1, "1 OR 1 = 1")])
def test_only_integers_are_written_into_the_statement(claim: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        fence([claim])

"""Finding pending tasks and runs."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import Task, TaskRun
from tests.store import verbs
from tests.store.verbs import CODE, HOUR, NOW

pytestmark = pytest.mark.per_database

SECOND = timedelta(seconds=1)


def found(*arguments: object, **named: object) -> list[str]:
    return [task.biz_num for task in api.get_tasks_by_code(*arguments, **named)]  # type: ignore[arg-type]


def test_only_pending_ones_the_earliest_first(db: None, frozen: None) -> None:
    verbs.add("running")
    verbs.claim()
    verbs.add("failed")
    verbs.settle(*map(verbs.failed, verbs.claim()))
    for num, hours in {"b": 2, "a": 3, "d": -1, "c": 2}.items():
        verbs.add(num, hours * HOUR)
    assert found() == found(CODE) == ["d", "b", "c", "a"]


def test_by_code_exactly(db: None) -> None:
    for code in ("a", "A", "ab"):
        verbs.add(code, biz_code=code)
    assert (found("a"), found("b"), found("")) == (["a"], [], [])


FRAGMENTS = ["", "5", "50%", "%", "_", "\\", "ABC", "aBc", "'", "x\\y", "é", "\U0001f600", "?"]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_by_fragment_whatever_its_case(db: None, fragment: str) -> None:
    numbers = ["50%x", "505", "a_b", "x\\y", "éx", "xABCx", "it's", "abcé", "\U0001f600 5"]
    api.add_tasks(verbs.task(num, NOW) for num in numbers)
    assert set(found(CODE, fragment)) == {num for num in numbers if fragment.lower() in num.lower()}
    assert set(found(biz_num=fragment)) == set(found(None, fragment)) == set(found(CODE, fragment))


def test_at_a_moment_exactly_if_any_is_else_later(db: None) -> None:
    for num, when in {"a": NOW, "b": NOW + SECOND, "c": NOW + SECOND, "d": NOW + 2 * SECOND}.items():
        verbs.add(num, when)
    microsecond = timedelta(microseconds=1)
    assert found(when=NOW + SECOND) == ["b", "c"]
    assert found(when=NOW + SECOND + microsecond) == ["d"]
    assert found(when=NOW + SECOND - microsecond) == ["b", "c", "d"]
    assert found(when=NOW + 3 * SECOND) == []
    assert found(None, "d", NOW + SECOND) == ["d"]  # none of that number is at exactly that moment


def test_between_two_moments_of_which_the_first_counts(db: None) -> None:
    for num, seconds in {"a": 0, "b": 1, "c": 2, "d": 3}.items():
        verbs.add(num, NOW + seconds * SECOND)
    assert found(due_after=NOW + SECOND) == ["b", "c", "d"]
    assert found(due_before=NOW + 2 * SECOND) == ["a", "b"]
    assert found(CODE, due_after=NOW + SECOND, due_before=NOW + 3 * SECOND) == ["b", "c"]
    assert found(due_after=NOW, due_before=NOW) == []
    berlin = ZoneInfo("Europe/Berlin")
    assert found(due_before=(NOW + SECOND).astimezone(berlin)) == ["a"]
    assert found(None, None, NOW + SECOND, due_before=NOW + SECOND) == []  # the exact one is outside
    assert found(None, None, NOW, due_after=NOW + SECOND) == ["b", "c", "d"]
    assert found(None, "C", due_after=NOW) == ["c"]


@pytest.mark.parametrize("field", ["due_before", "due_after"])
@pytest.mark.parametrize("value", ["", 5, HOUR, datetime(2031, 1, 1)])  # noqa: DTZ001
def test_moments_are_aware_datetimes(db: None, field: str, value: Any) -> None:
    with pytest.raises(InvalidTask, match=f"^{field}="):
        found(**{field: value})


def test_a_queryset_can_be_narrowed(db: None) -> None:
    verbs.add("1", priority=5)
    verbs.add("2")
    tasks = api.get_tasks_by_code(CODE)
    assert tasks.model is Task
    assert [task.biz_num for task in tasks.filter(priority=5)] == ["1"]
    assert tasks.count() == 2


def test_runs_newest_first(db: None) -> None:
    for num in ("a1", "A2", "b", "a1"):
        verbs.add(num)
        verbs.settle(*map(verbs.done, verbs.claim()))
    verbs.add("a1", biz_code="other")
    verbs.settle(*map(verbs.done, verbs.claim()))
    runs = api.get_runs()
    assert runs.model is TaskRun
    assert [(run.biz_code, run.biz_num) for run in runs] == [
        ("other", "a1"), (CODE, "a1"), (CODE, "b"), (CODE, "A2"), (CODE, "a1"),
    ]  # fmt: skip
    assert [run.biz_num for run in api.get_runs(CODE, "A")] == ["a1", "A2", "a1"]
    assert api.get_runs(None, "b").get().biz_num == "b"
    assert not api.get_runs("nothing").exists()

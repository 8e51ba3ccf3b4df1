"""Assertions about what is scheduled, and what they say if it is not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks import Cron, Interval, cancel_task
from django_delayed_tasks.exceptions import UnknownCode
from django_delayed_tasks.testing import assert_not_scheduled, assert_scheduled, scheduled_tasks, travel
from tests.executor.parts import add, claim, handler_of, registered

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _at_noon() -> object:
    handler_of(lambda task: None)
    handler_of(lambda task: None, "other")
    with travel(to=NOON):
        yield


def test_a_scheduled_task_is_returned() -> None:
    add("1", when=HOUR, biz_ext={"a": [1]}, queue="mail", priority=3, trigger=Cron("0 3 * * *"))
    task = assert_scheduled(
        "code", 1, when=HOUR, biz_ext={"a": (1,)}, queue="mail", priority=3, trigger=Cron("0 3 * * *")
    )
    assert task.biz_num == "1"
    assert assert_scheduled("code") == task
    assert assert_scheduled("code", "1", when=NOON + HOUR) == task


def test_any_number() -> None:
    add("1", when=HOUR)
    add("2", when=2 * HOUR)
    assert assert_scheduled("code", when=2 * HOUR).biz_num == "2"


@pytest.mark.parametrize(("off", "within"), [(SECOND, None), (HOUR, HOUR), (-HOUR, HOUR)])
def test_about_that_time(off: timedelta, within: timedelta | None) -> None:
    add("1", when=5 * HOUR + off)
    assert_scheduled("code", "1", when=5 * HOUR, within=within)


def test_due_now_is_a_time_too() -> None:
    add("1", when=HOUR)
    with pytest.raises(AssertionError, match="1:00:00 later"):
        assert_scheduled("code", "1", when=timedelta())


def test_within_of_no_time_is_refused() -> None:
    add("1", when=HOUR)
    with pytest.raises(TypeError, match="not given"):
        assert_scheduled("code", "1", within=HOUR)


def test_keys_and_triggers_in_another_form() -> None:
    add("1", when=HOUR, biz_ext={"a": {"x": 1, "y": 2}, "b": 3}, trigger=Interval(minutes=90))
    assert_scheduled("code", "1", biz_ext={"b": 3, "a": {"y": 2, "x": 1}}, trigger="Interval(minutes=90)")
    with pytest.raises(AssertionError, match="biz_ext is"):
        assert_scheduled("code", "1", biz_ext={"b": True, "a": {"y": 2, "x": 1}})


@pytest.mark.parametrize(("when", "within"), [(NOON + 5 * HOUR, None), (5 * HOUR, timedelta()), (5 * HOUR, SECOND / 2)])
def test_not_exactly_that_time(when: datetime | timedelta, within: timedelta | None) -> None:
    add("1", when=5 * HOUR + SECOND)
    with pytest.raises(AssertionError) as failed:
        assert_scheduled("code", "1", when=when, within=within)
    assert str(failed.value) == (
        "code 1 is scheduled otherwise:\n"
        "  code 1: when is 2026-03-01 17:00:01+00:00, 0:00:01 later than 2026-03-01 17:00:00+00:00"
    )


def test_each_difference_is_named() -> None:
    add("1", biz_ext={"a": 1})
    with pytest.raises(AssertionError) as failed:
        assert_scheduled("code", "1", when=HOUR, biz_ext=None, queue="mail", priority=3, trigger=Cron("0 3 * * *"))
    text = str(failed.value)
    assert "1:00:00 earlier than 2026-03-01 13:00" in text
    assert "queue is 'default', not 'mail'" in text
    assert "priority is 0, not 3" in text
    assert "biz_ext is {'a': 1}, not None" in text
    assert "trigger is None, not " in text


def test_without_such_a_task_the_others_are_shown() -> None:
    add("2", when=HOUR)
    with pytest.raises(AssertionError) as failed:
        assert_scheduled("code", "1")
    assert str(failed.value) == ("code 1 is not scheduled; scheduled are:\n  code 2 at 2026-03-01 13:00:00+00:00")


def test_with_no_task_at_all() -> None:
    with pytest.raises(AssertionError, match=r"^code is not scheduled; nothing is$"):
        assert_scheduled("code")


def test_of_many_tasks_some_are_shown() -> None:
    for number in range(15):
        add(str(number), code="other")
    with pytest.raises(AssertionError, match=r"  other 9 at [^\n]* and 5 more$"):
        assert_scheduled("code")


def test_what_is_not_scheduled() -> None:
    add("1", code="other")
    add("1")
    assert_not_scheduled("code", "2")
    with pytest.raises(AssertionError, match=r"^code 1 is scheduled:\n  code 1 at 2026-03-01 12:00:00"):
        assert_not_scheduled("code", "1")
    with pytest.raises(AssertionError, match=r"^code is scheduled:"):
        assert_not_scheduled("code")
    cancel_task("code", "1")
    assert_not_scheduled("code")


@pytest.mark.parametrize("ask", [assert_scheduled, assert_not_scheduled, scheduled_tasks])
def test_a_misspelled_code_is_refused(ask: Any) -> None:
    with pytest.raises(UnknownCode, match="did you mean 'code'"):
        ask("coed")


def test_all_that_are_pending_in_the_order_of_their_times() -> None:
    add("b", when=2 * HOUR)
    add("c", when=3 * HOUR, code="other")
    add("a", when=HOUR)
    add("running")
    claim(registered())
    assert [task.biz_num for task in scheduled_tasks()] == ["a", "b", "c"]
    assert [task.biz_num for task in scheduled_tasks("code")] == ["a", "b"]
    assert [task.biz_num for task in scheduled_tasks(num="c")] == ["c"]

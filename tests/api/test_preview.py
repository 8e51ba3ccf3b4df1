"""``preview``: what would run when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from django_delayed_tasks import Cron, Interval, PlannedRun, Task, pause_queue, pause_task, preview
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.exceptions import InvalidTask, UnknownCode
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.store.sql.lanes import is_blocked
from django_delayed_tasks.testing import run_due_tasks
from tests.executor.parts import add, claim, handler_of, registered

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _at_noon() -> Any:
    with registry.preserved(), frozen_at(NOON):
        handler_of(lambda task: None)
        handler_of(lambda task: None, "other")
        yield


def numbers(runs: list[PlannedRun]) -> list[str]:
    return [run.biz_num for run in runs]


def test_what_is_due_until_then_in_the_order_of_time() -> None:
    for number, hours in (("later", 5), ("c", 3), ("a", 0), ("b", 2)):
        add(number, when=hours * HOUR, queue=f"queue {number}")
    [a, b, c] = preview(3 * HOUR)
    assert numbers([a, b, c]) == ["a", "b", "c"]
    assert a == PlannedRun(NOON, "code", "a", NOON, "queue a", 0)
    assert c.at == c.when == NOON + 3 * HOUR
    assert preview(NOON + 3 * HOUR) == [a, b, c]


def test_higher_priorities_come_first_at_the_same_time() -> None:
    for priority in (1, 5, -3):
        add(str(priority), when=HOUR, priority=priority)
    assert numbers(preview(HOUR)) == ["5", "1", "-3"]


def test_nothing_is_due() -> None:
    add(when=2 * HOUR)
    assert preview(HOUR) == []


def test_nothing_is_changed() -> None:
    add(when=HOUR, trigger=Interval(hours=1))
    before = list(Task.objects.values())
    preview(DAY)
    assert list(Task.objects.values()) == before


def test_a_recurring_task_appears_at_each_of_its_times() -> None:
    add("1", trigger=Interval(hours=6))
    add("2", when=7 * HOUR)
    runs = preview(DAY)
    assert [(run.biz_num, run.at - NOON, run.is_later) for run in runs] == [
        ("1", 6 * HOUR, False), ("2", 7 * HOUR, False),
        *(("1", hours * HOUR, True) for hours in (12, 18, 24)),
    ]  # fmt: skip
    assert runs[0].trigger == str(Interval(hours=6))
    assert runs[1].trigger is None


def test_an_extra_run_leaves_the_planned_ones() -> None:
    add("1", trigger=Interval(hours=6))
    Task._base_manager.update(claim_at=NOON)  # as "Run now" does
    assert [(run.at - NOON, run.is_later) for run in preview(13 * HOUR)] == [
        (timedelta(), False), (6 * HOUR, True), (12 * HOUR, True),
    ]  # fmt: skip


def test_after_an_extra_run_missed_times_are_one_run_too() -> None:
    add("1", trigger=Interval(minutes=1))
    Task._base_manager.update(claim_at=NOON - HOUR)
    with frozen_at(NOON + HOUR):
        assert [(run.at - NOON) / MINUTE for run in preview(2 * MINUTE)] == [-60, 1, 61, 62]


def test_missed_times_are_one_run() -> None:
    add("1", trigger=Interval(hours=6))
    with frozen_at(NOON + DAY + MINUTE):
        assert [run.at - NOON for run in preview(13 * HOUR)] == [6 * HOUR, 30 * HOUR, 36 * HOUR]


def test_a_frequent_task_does_not_fill_the_preview_for_ever() -> None:
    add("often", trigger=Interval(minutes=1))
    add("noon", trigger=Cron("0 12 * * *", tz="UTC"))
    runs = preview(365 * DAY, limit=20)
    assert numbers(runs) == ["often"] * 20
    assert runs[-1].at == NOON + 20 * MINUTE


def test_no_more_than_asked_for() -> None:
    for number in range(10):
        add(str(number), when=HOUR, priority=number % 3)
    assert len(preview(HOUR, limit=4)) == 4
    assert len(preview(HOUR)) == 10


def test_a_retry_is_shown_at_its_time() -> None:
    add()
    Task._base_manager.update(claim_at=NOON + MINUTE, attempts=2)
    [run] = preview(HOUR)
    assert (run.at, run.when, run.attempt) == (NOON + MINUTE, NOON, 3)


def test_tasks_of_limited_handlers_are_shown_too() -> None:
    handler_of(lambda task: None, "limited", rate="1/h", concurrency_key=lambda self, task: "key")
    for number in ("1", "2", "3"):
        add(number, code="limited")
    add("later", code="limited", when=HOUR)
    run_due_tasks()
    blocked = Task.objects.filter(biz_num__in=["2", "3"]).values_list("lane", flat=True)
    assert all(is_blocked(lane) for lane in blocked)
    assert numbers(preview(HOUR)) == ["2", "3", "later"]
    assert numbers(preview(HOUR, biz_code="limited")) == ["2", "3", "later"]


def test_of_many_levels_the_first_are_read(django_assert_max_num_queries: Any) -> None:
    for number in range(30):
        add(str(number), when=number * MINUTE, queue=f"queue {number}")
    with django_assert_max_num_queries(6):
        assert numbers(preview(HOUR, limit=3)) == ["0", "1", "2"]


def test_one_code() -> None:
    add("1")
    add("2", code="other")
    assert numbers(preview(HOUR, biz_code="other")) == ["2"]


def test_what_does_not_run_is_left_out() -> None:
    add("paused", when=HOUR)
    pause_task("code", "paused")
    add("in a paused queue", when=HOUR, queue="slow")
    pause_queue("slow")
    add("running")
    claim(registered())
    add("failed")
    Task._base_manager.filter(biz_num="failed").update(status=2)
    assert preview(DAY) == []


def test_a_trigger_that_cannot_be_read_is_shown_once() -> None:
    add(when=HOUR, trigger=Interval(hours=1))
    Task._base_manager.update(trigger="Interval(centuries=1)")
    assert len(preview(DAY)) == 1


@pytest.mark.parametrize("wrong", [{"until": "noon"}, {"until": None}, {"limit": 0}, {"limit": "all"}])
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        preview(**{"until": HOUR, **wrong})


@override_settings(DELAYED_TASKS={})
def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(UnknownCode, match="did you mean 'other'"):
        preview(HOUR, biz_code="othr")


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(InvalidTask, match="naive"):
        preview(timezone.now().replace(tzinfo=None))

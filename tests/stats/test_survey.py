"""The survey: portions by primary key, what they show, and the future times of recurring tasks."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.executor.membership import surveyor
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.membership.surveyor import OTHERS, Surveyor, report, take_survey
from django_delayed_tasks.models import Executor, Overview, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.records import survey
from django_delayed_tasks.store.records.survey import LATER, Recurring, Survey, minute_of, moment_of, project
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, OTHER, new_task
from tests.executor.parts import registered

DAY = timedelta(days=1)
pytestmark = [pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def fill(*tasks: Task) -> None:
    Task._base_manager.bulk_create(tasks)


def taken() -> Any:
    """The data of a survey that is taken now."""
    take_survey("default")
    return Overview.objects.get(name="survey").data


@pytest.mark.django_db
class TestSurvey:
    def test_counts_by_status_code_and_queue(self) -> None:
        fill(
            *(new_task(f"p{i}", queue="mail") for i in range(3)),
            new_task("r", status=TaskStatus.RUNNING),
            *(new_task(f"f{i}", status=TaskStatus.FAILED, biz_code=OTHER) for i in range(2)),
        )
        data = taken()
        assert data["tasks"] == 6
        assert data["totals"] == {"0": 3, "1": 1, "2": 2}
        assert data["statuses"]["2"] == {OTHER: 2}
        assert data["queues"] == {"mail": 3}

    def test_due_by_the_minute_then_by_the_hour(self) -> None:
        soon, later, far = NOW + 5 * MINUTE, NOW + 3 * DAY + 7 * MINUTE, NOW + 50 * DAY
        fill(*(new_task(f"{i}", when) for i, when in enumerate((soon, soon + timedelta(seconds=59), later, far))))
        due = dict(map(tuple, taken()["due"][CODE]))
        hour = later.replace(minute=0)
        assert due == {minute_of(soon): 2, minute_of(hour): 1, LATER: 1}
        assert moment_of(minute_of(soon)) == soon

    def test_portions_leave_nothing_out_and_count_nothing_twice(self) -> None:
        fill(*(new_task(f"{i}", NOW + i * MINUTE) for i in range(23)))
        Task._base_manager.filter(biz_num__in=["3", "4", "5", "6", "7", "22"]).delete()
        peers = Peers()
        peers.refresh(registered(), executors.live("default"))
        steps = Surveyor("default", peers, portion=5)
        assert [steps.step() for _ in range(4)] == [True, True, True, False]
        assert Overview.objects.get().data["totals"] == {"0": 17}

    @pytest.mark.parametrize("recurring", [0, 1])
    def test_a_portion_costs_two_statements_and_one_for_recurring_tasks(self, recurring: int) -> None:
        fill(*(new_task(f"{i}", trigger="Interval(days=1)" if i < recurring else None) for i in range(50)))
        with CaptureQueriesContext(connection) as context:
            survey.read_portion("default", NOW, 0, 20)
        assert len(context) == 2 + recurring

    def test_an_empty_table(self) -> None:
        assert taken()["tasks"] == 0

    def test_only_the_first_executor_surveys(self) -> None:
        first, second = registered("a"), registered("b")
        Executor.objects.filter(pk=second).update(started_at=NOW + MINUTE)
        peers = Peers()
        steps = Surveyor("default", peers)
        steps.step()
        peers.refresh(second, executors.live("default"))
        steps.step()
        assert not Overview.objects.exists()
        executors.retire("default", first)
        peers.refresh(second, executors.live("default"))
        steps.step()
        assert Overview.objects.exists()

    def test_many_codes_are_summed_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(surveyor, "MAX_CODES", 2)
        fill(*(new_task(f"{i}", biz_code=f"c{i % 4}") for i in range(10)))
        due = taken()["due"]
        assert {code: sum(count for _, count in times) for code, times in due.items()} == {"c0": 3, "c1": 3, OTHERS: 4}

    def test_recurring_tasks_count_where_they_recur(self) -> None:
        fill(new_task("1", NOW + MINUTE, trigger="Interval(minutes=10)"))
        data = taken()
        assert data["due"] == {CODE: [[LATER, 1]]}
        minutes = [minute - minute_of(NOW) for minute, _ in data["recurring"][CODE][:3]]
        assert minutes == [1, 11, 21]

    def test_lateness_is_remembered(self) -> None:
        fill(new_task("1", NOW - HOUR, claim_at=NOW - HOUR, queue="mail"))
        for _ in range(9):
            late = taken()["late"]
        assert late[-1][1] == {"mail": 3600.0}
        assert len(late) == 1 + surveyor.MAX_LATENCIES


class TestProjection:
    def times(self, trigger: str, count: int = 1, first: Any = NOW, steps: int = 20_000) -> Counter[int]:
        return project([Recurring(CODE, trigger, first, count)], NOW, steps)[CODE]

    def test_an_interval(self) -> None:
        times = self.times("Interval(hours=6)", count=3)
        assert {minute_of(NOW + number * 6 * HOUR): 3 for number in (1, 2, 3, 4)}.items() <= times.items()
        assert times.total() == 3 * 32 * 4

    def test_the_next_time_counts_if_it_is_to_come(self) -> None:
        assert minute_of(NOW + HOUR) in self.times("Interval(hours=6)", first=NOW + HOUR)
        assert minute_of(NOW - HOUR) not in self.times("Interval(hours=6)", first=NOW - HOUR)

    def test_too_many_times_are_continued_at_their_rate(self) -> None:
        exact = self.times("Interval(seconds=30)", steps=200_000)
        estimated = self.times("Interval(seconds=30)", steps=60)
        assert estimated.total() == pytest.approx(exact.total(), rel=0.01)
        assert estimated[minute_of(NOW + 20 * HOUR)] == 2
        assert estimated[minute_of(NOW + 5 * DAY) // 60 * 60] == 120

    def test_a_cron_at_night(self) -> None:
        times = self.times("Cron('0 3 * * *', tz='UTC')")
        assert times.total() == 32
        assert minute_of(NOW.replace(hour=3, minute=0) + DAY) in times

    def test_what_cannot_be_read_is_left_out(self) -> None:
        assert not self.times("Nonsense(1)")

    def test_the_most_frequent_triggers_are_projected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = project([Recurring(f"c{i}", "Interval(days=1)", NOW, i) for i in range(500)], NOW, 100)
        assert len(found) == 400
        assert "c499" in found


def test_a_report_needs_no_database() -> None:
    assert report(Survey(NOW), Counter())["totals"] == {}

"""Recurring tasks whose handler, or the handler's trigger, is no more."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import TaskRun, api, clock
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.executor.membership.recurrences import RETIRE_AFTER, Recurrences
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.schedules import declare
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.triggers import Interval, Once
from tests.executor.parts import claim, registered
from tests.recurring.machine import MINUTE, NOON
from tests.recurring.test_handlers import EVERY_TEN, nightly, own_handlers, start_at

__all__ = ["own_handlers"]
pytestmark = pytest.mark.django_db


class TestRetired:
    """A handler that has gone: its task is ended when no executor has spoken for it for long."""

    AFTER = RETIRE_AFTER / MINUTE

    def retire_at(self, minute: float) -> list[str]:
        with frozen_at(NOON + minute * MINUTE):
            return declare.retire("default", unconfirmed_for=RETIRE_AFTER)

    def test_after_a_while(self) -> None:
        nightly()
        start_at(0)
        assert self.retire_at(self.AFTER - 1) == []
        assert self.retire_at(self.AFTER + 1) == ["nightly"]
        assert not TaskRow.objects.exists()

    def test_not_while_an_executor_has_it(self) -> None:
        nightly()
        start_at(0)
        with frozen_at(NOON + 9 * MINUTE):
            Recurrences("default").confirm()
        assert self.retire_at(self.AFTER + 1) == []

    @pytest.mark.django_db(transaction=True)
    def test_not_one_that_is_confirmed_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By an executor that has read its time before, and commits after this one has looked."""
        nightly()
        start_at(0)
        usual = declare._end

        def end(alias: str, code: str, before: Any) -> bool:
            with frozen_at(NOON + (self.AFTER + 0.9) * MINUTE):
                Recurrences("default").confirm()
            return usual(alias, code, before)

        monkeypatch.setattr(declare, "_end", end)
        assert self.retire_at(self.AFTER + 1) == []
        assert TaskRow.objects.exists()

    def test_a_run_in_progress_ends_first(self) -> None:
        nightly()
        start_at(0)
        with frozen_at(NOON + 10 * MINUTE):
            [task] = claim(registered())
        assert self.retire_at(self.AFTER + 1) == ["nightly"]
        assert TaskRow.objects.get().status == TaskStatus.RUNNING
        settlement = Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)
        assert settle("default", [settlement]).became == {task.claim: NextState.GONE}

    def test_a_pause_that_was_asked_for_ends_with_it(self) -> None:
        """As when a person cancels it: there is nothing to resume, and what comes back is not paused."""
        nightly()
        start_at(0)
        with frozen_at(NOON + 10 * MINUTE):
            [task] = claim(registered())
            assert api.pause_task("nightly", declare.NUM)
        assert self.retire_at(self.AFTER + 1) == ["nightly"]
        assert not api.resume_task("nightly", declare.NUM)
        start_at(self.AFTER + 2)
        settlement = Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)
        assert settle("default", [settlement]).became == {task.claim: NextState.AGAIN}
        assert TaskRow.objects.get().status == TaskStatus.PENDING

    def test_not_after_an_outage_for_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No executor could confirm: the first one to come back does not end what belongs to the others."""
        nightly()
        start_at(0)
        registry.clear()
        seconds = [1000.0]
        monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
        other = Recurrences("default")  # of other handlers
        confirmed = []
        for seconds[0] in (1060.0, 1000.0 + 700, 1000.0 + 760):
            with frozen_at(NOON + timedelta(seconds=seconds[0] - 1000)):
                other.confirm()
                confirmed.append(TaskRow.objects.exists())
        assert confirmed == [True] * 3
        for _ in range(11):
            seconds[0] += 60
            with frozen_at(NOON + timedelta(seconds=seconds[0] - 1000)):
                other.confirm()
        assert not TaskRow.objects.exists()

    def test_not_while_a_live_executor_handles_it(self) -> None:
        """It may be unable to confirm, and comes back."""
        nightly()
        start_at(0)
        live = registered("b", codes=("nightly",))
        assert self.retire_at(self.AFTER + 1) == []
        executors.retire("default", live)
        assert self.retire_at(self.AFTER + 1) == ["nightly"]

    @pytest.mark.parametrize("is_there", [True, False])
    def test_one_without_trigger_that_older_code_has_made_again(
        self, is_there: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a rolling deploy: it remains as long as an executor with the older code confirms it, and no longer."""
        nightly()
        start_at(0)
        seconds = [1000.0]
        monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
        new, old = Recurrences("default"), Recurrences("default")

        def confirm_both(minute: int, has_old: bool) -> None:
            seconds[0] = 1000.0 + minute * 60
            with frozen_at(NOON + minute * MINUTE):
                if has_old:
                    nightly()
                    old.confirm()
                nightly(None)
                new.confirm()

        nightly(None)
        registered("new", codes=("nightly",))
        start_at(1)
        assert not TaskRow.objects.exists()
        confirm_both(2, has_old=True)
        assert TaskRow.objects.get().trigger == EVERY_TEN
        for minute in range(3, 15):
            confirm_both(minute, has_old=is_there)
        assert TaskRow.objects.exists() == is_there

    def test_made_again_by_an_executor_that_has_it(self) -> None:
        nightly()
        start_at(0)
        assert self.retire_at(self.AFTER + 1) == ["nightly"]
        with frozen_at(NOON + 30 * MINUTE):
            Recurrences("default").confirm()
        assert TaskRow.objects.get().biz_code == "nightly"


def test_a_trigger_whose_times_are_over_makes_no_task() -> None:
    nightly(Once(NOON))
    start_at(4)
    assert not TaskRow.objects.exists()


@pytest.mark.parametrize("runs", [False, True])
def test_a_trigger_whose_times_are_over_ends_the_one_before(runs: bool) -> None:
    nightly()
    start_at(0)
    if runs:
        with frozen_at(NOON + 10 * MINUTE):
            [task] = claim(registered())
    nightly(Interval(minutes=10, end=NOON + 12 * MINUTE))
    start_at(14)
    if runs:
        settlement = Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)
        assert settle("default", [settlement]).became == {task.claim: NextState.GONE}
    else:
        assert "no further time: Interval" in TaskRun.objects.get().error
    assert not TaskRow.objects.exists()


def test_a_trigger_that_is_in_its_last_run_is_left_alone() -> None:
    nightly(Interval(minutes=10, end=NOON + 12 * MINUTE))
    start_at(0)
    start_at(14)
    assert TaskRow.objects.get().status == TaskStatus.PENDING

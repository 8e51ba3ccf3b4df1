"""The tally: which ends of runs are counted, with which lateness and error."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, InterfaceError, OperationalError

from django_delayed_tasks import Fail
from django_delayed_tasks.executor.tally import MAX_ERRORS, OTHER_ERRORS, Tally, tally_of, totals
from django_delayed_tasks.models import Executor, Statistic
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.stats import failures, rates
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.settling.reap import ReapedTask
from django_delayed_tasks.store.settling.settlement import Settlement, released
from tests.admin.rows import NOW
from tests.executor.parts import add, claim, claim_one, drain, executing, handler_of, registered
from tests.waiting import wait_until

pytestmark = pytest.mark.per_database

FAILED = int(RunOutcome.FAILED)


def counted() -> dict[tuple[str, str], int]:
    """What an hour's rows say: runs by outcome and error."""
    rows = Statistic.objects.filter(grain=3600)
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        key = RunOutcome(row.outcome).name, row.error
        found[key] = found.get(key, 0) + row.runs
    return found


class TestByAnExecutor:
    """Every end that an executor writes is counted once, when it stops at the latest."""

    def test_done_with_and_without_history(self, live_db: str) -> None:
        handler_of(lambda task: None)
        handler_of(lambda task: None, "silent", keep_history="none")
        for number in range(7):
            add(str(number))
            add(str(number), "silent")
        drain()
        assert counted() == {("DONE", ""): 14}
        assert {(runs.code, runs.total) for runs in rates()} == {("code", 7), ("silent", 7)}
        assert {runs.lateness.count for runs in rates()} == {7}
        assert {runs.run_time.count for runs in rates()} == {7}

    def test_atomic_runs(self, live_db: str) -> None:
        handler_of(lambda task: None, atomic=True)
        handler_of(lambda task: 1 / 0, "broken", atomic=True, max_attempts=1)
        for number in range(3):
            add(str(number))
        add("1", "broken")
        drain()
        assert counted() == {("DONE", ""): 3, ("FAILED", "builtins.ZeroDivisionError"): 1}

    def test_failures_by_class_or_reason(self, live_db: str) -> None:
        handler_of(lambda task: [][1], "raises", max_attempts=2, backoff=lambda self, attempt: timedelta())
        handler_of(lambda task: Fail(f"order {task.biz_num} is gone, since {NOW:%Y}"), "refuses")
        for number in range(3):
            add(str(number + 100), "refuses")
        add("1", "raises")
        drain()
        assert counted() == {
            ("FAILED", "order # is gone, since #"): 3,
            ("RETRIED", "builtins.IndexError"): 1,
            ("FAILED", "builtins.IndexError"): 1,
        }
        assert [(one.code, one.count, one.final) for one in failures()] == [("refuses", 3, 3), ("raises", 2, 1)]
        [raises] = [runs for runs in rates() if runs.code == "raises"]
        assert (raises.lateness.count, raises.run_time.count) == (1, 2)  # a second attempt is late by its back-off

    def test_while_it_runs(self, live_db: str) -> None:
        handler_of(lambda task: None)
        with executing() as executor:
            add("1")
            executor.capacity.plain.wake.set()
            wait_until(lambda: Statistic.objects.exists())

    def test_it_ends_its_lease_though_they_cannot_be_written(
        self, live_db: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise InterfaceError("the connection is closed")

        monkeypatch.setattr(rollup, "add", refuse)
        handler_of(lambda task: None)
        add()
        drain()
        assert Executor.objects.get().alive is None


@pytest.mark.django_db
class TestWhatIsCounted:
    def end(self, then: NextState | None, outcome: RunOutcome = RunOutcome.DONE, **fields: Any) -> Tally:
        task = claim_one()
        tally = Tally()
        settlement = Settlement(task.claim, outcome, fields.pop("meant", NextState.GONE), **fields)
        tally.count([settlement], {} if then is None else {task.claim: then}, {task.claim: task}.get)
        return tally

    def keys(self, tally: Tally) -> set[tuple[int, str]]:
        return {(outcome, error) for _, outcome, error in tally._counts}

    def test_a_claim_that_was_gone_is_not(self) -> None:
        assert not self.end(None)._counts

    def test_a_release_is_not(self) -> None:
        task = claim_one()
        tally = Tally()
        tally.count([released(task)], {task.claim: NextState.RELEASED}, {task.claim: task}.get)
        assert not tally._counts

    def test_a_failure_of_a_cancelled_task(self) -> None:
        tally = self.end(NextState.GONE, RunOutcome.RETRIED, meant=NextState.RETRY, error="x")
        assert self.keys(tally) == {(int(RunOutcome.CANCELLED), "")}

    @pytest.mark.parametrize(
        ("then", "outcome"),
        [
            (NextState.RESCUED, RunOutcome.LOST),
            (NextState.FAILED, RunOutcome.FAILED),
            (NextState.RECUR, RunOutcome.FAILED),
        ],
    )
    def test_a_run_that_was_lost_has_failed_if_its_task_is_given_up(self, then: NextState, outcome: RunOutcome) -> None:
        task = claim_one()
        tally = Tally()
        end = Settlement(task.claim, RunOutcome.LOST, then, error="its executor died")
        tally.count_lost([ReapedTask(end, then, "code", 1, task, "one")])
        tally.count([end], {task.claim: then}, {task.claim: task}.get)
        assert {key: cell.runs for key, cell in tally._counts.items()} == {
            ("code", int(outcome), "its executor died"): 2
        }

    def test_times(self) -> None:
        add()
        [task] = claim(registered())
        tally = Tally()
        started = task.when + timedelta(seconds=2)
        times: Any = {"started": started, "finished": started + timedelta(seconds=5)}
        tally.count(
            [Settlement(task.claim, RunOutcome.DONE, NextState.GONE, **times)],
            {task.claim: NextState.GONE},
            {task.claim: task}.get,
        )
        [cell] = tally._counts.values()
        assert (cell.late_sum, cell.took_sum) == (timedelta(seconds=2), timedelta(seconds=5))

    def test_errors_beyond_a_limit_are_counted_together(self) -> None:
        task = claim_one()
        tally = Tally()
        for number in range(MAX_ERRORS + 10):
            error = Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, error="e" * (number + 1))
            tally.count([error], {task.claim: NextState.FAILED}, {task.claim: task}.get)
        assert len(tally._counts) == MAX_ERRORS + 1
        assert tally._counts["code", FAILED, OTHER_ERRORS].runs == 10

    def test_a_long_error_is_cut(self) -> None:
        tally = self.end(NextState.FAILED, RunOutcome.FAILED, meant=NextState.FAILED, error="é" * 500 + "\nmore")
        tally.flush("default", NOW)
        assert Statistic.objects.first().error == "é" * 120  # type: ignore[union-attr]


@pytest.mark.django_db
def test_counts_that_cannot_be_written_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claim_one()
    tally = tally_of("default")

    def refuse(*_: object) -> None:
        raise OperationalError("away")

    def count() -> None:
        tally.count(
            [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)],
            {task.claim: NextState.GONE},
            {task.claim: task}.get,
        )

    count()
    with monkeypatch.context() as context:
        context.setattr(rollup, "add", refuse)
        with pytest.raises(OperationalError):
            tally.flush("default", NOW)
    count()
    tally.flush("default", NOW)
    assert counted() == {("DONE", ""): 2}
    tally.flush("default", NOW)
    assert counted() == {("DONE", ""): 2}


@pytest.mark.django_db
def test_totals_have_each_end_once_whether_it_is_written_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claim_one()
    tally = tally_of("default")

    def runs() -> int:
        return totals().ends["code", FAILED].runs

    def refuse(*_: object) -> None:
        assert runs() == 2  # those that are being written count, too
        raise OperationalError("away")

    def fail(error: str) -> None:
        end = Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, error=error)
        tally.count([end], {task.claim: NextState.FAILED}, {task.claim: task}.get)

    fail("a")
    fail("b")
    before = totals()
    with monkeypatch.context() as context:
        context.setattr(rollup, "add", refuse)
        with pytest.raises(OperationalError):
            tally.flush("default", NOW)
    assert runs() == 2
    fail("a")
    assert runs() == 3
    tally.flush("default", NOW)
    assert (runs(), totals().failed["code"], before.ends["code", FAILED].runs) == (3, 3, 2)
    assert counted() == {("FAILED", "a"): 2, ("FAILED", "b"): 1}


@pytest.mark.django_db
def test_errors_that_cannot_be_written_stay_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claim_one()
    tally = Tally()

    def refuse(*_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(rollup, "add", refuse)
    for number in range(3 * MAX_ERRORS):
        end = Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, error="e" * (number + 1))
        tally.count([end], {task.claim: NextState.FAILED}, {task.claim: task}.get)
        with pytest.raises(OperationalError):
            tally.flush("default", NOW)
    assert len(tally._unwritten) == MAX_ERRORS + 1


@pytest.mark.django_db
def test_a_task_that_its_handler_has_spoilt_is_left_out_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    add("1")
    add("2")
    tasks = claim(registered())
    spoilt: Any = tasks[0]
    spoilt.when = None
    ends = [Settlement(task.claim, RunOutcome.DONE, NextState.GONE, started=NOW, finished=NOW) for task in tasks]
    tally = Tally()
    tally.count(
        ends, dict.fromkeys((task.claim for task in tasks), NextState.GONE), {task.claim: task for task in tasks}.get
    )
    assert tally._counts["code", 0, ""].runs == 1
    assert "cannot be counted" in caplog.text


@pytest.mark.django_db
def test_what_the_database_refuses_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = claim_one()
    write = rollup.add

    def refuse(alias: str, counts: Any, now: Any) -> None:
        if any(error == "q" for _, _, error in counts):
            raise DataError("not in this encoding")
        write(alias, counts, now)

    def fail(error: str) -> None:
        end = Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, error=error)
        tally_of("default").count([end], {task.claim: NextState.FAILED}, {task.claim: task}.get)
        tally_of("default").flush("default", NOW)

    monkeypatch.setattr(rollup, "add", refuse)
    fail("q")
    assert "statistics cannot be written (runs: 1)" in caplog.text
    fail("o")
    assert list(counted()) == [("FAILED", "o")]

"""Claims a moment ahead of the time: no start before it, whatever becomes of the claim."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.claiming.lookahead import MARGIN, REMEMBERED, Lookahead
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running import worker
from django_delayed_tasks.executor.running.worker import MAX_HOLD, OVERSLEPT, hold_until_due
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, hold_until, is_early, not_before
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement, released
from tests.executor.parts import Bench, add, executing, handler_of, registered
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

AHEAD = timedelta(milliseconds=5)
"""What a new look-ahead looks ahead, and what the tests keep it at."""
NOT_YET = timedelta(milliseconds=3)


class Steady(Lookahead):
    """Sees no need to change."""

    length = AHEAD


class HandClock(DatabaseClock):
    """Shows what it is set to; a look at it takes some time."""

    moment: datetime

    def now(self) -> datetime:
        self.moment += timedelta(microseconds=1)
        return self.moment


def database_now() -> datetime:
    return read_agenda("default").now


@pytest.fixture
def bench(make_bench: Any) -> Bench:
    """A bench that looks ahead."""
    made: Bench = make_bench(lookahead=Steady)
    return made


def claim_ahead(ahead: timedelta = NOT_YET, **fields: Any) -> ClaimedTask:
    """A task, claimed so long before its time; the clock stands still."""
    add(when=ahead, **fields)
    request = ClaimRequest(registered(), "default", 0, 10, ahead=AHEAD)
    [task] = strategy_for("default", "auto")("default", request)
    return task


class TestPoller:
    def test_claims_ahead_and_says_until_when_to_hold(self, bench: Bench) -> None:
        handler_of(lambda task: None)
        moment = database_now()
        with clock.frozen_at(moment):
            add("soon", when=timedelta(milliseconds=70))
            assert bench.poller.poll() == pytest.approx(0.065)
        with clock.frozen_at(moment + timedelta(milliseconds=65)):
            assert bench.poller.poll() == 0
        assert bench.numbers == ["soon"]
        assert not_before(bench.delivered[:1]) == Task.objects.get().when == moment + timedelta(milliseconds=70)

    def test_what_is_due_is_not_held_and_comes_first(self, bench: Bench) -> None:
        handler_of(lambda task: None)
        with clock.frozen_at(database_now()):
            add("urgent soon", when=NOT_YET, priority=9)
            add("due")
            bench.poller.poll()
        assert bench.numbers == ["due", "urgent soon"]
        assert [bool(not_before([task])) for task in bench.delivered] == [False, True]

    def test_what_cannot_be_claimed_ahead_is_waited_for(self, bench: Bench) -> None:
        # It has no handler here: it is released at once, and not looked at again before its time.
        registered("other", codes=("unknown",))
        bench.peers.refresh(bench.lease.executor, executors.live("default"))
        with clock.frozen_at(database_now()):
            add("1", "unknown", when=NOT_YET)
            bench.poller.poll()
            assert len(settle("default", bench.released).became) == 1
            assert bench.poller.poll() == pytest.approx(NOT_YET.total_seconds())

    def test_what_others_have_claimed_is_waited_for(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        handler_of(lambda task: None)
        monkeypatch.setattr(bench.poller, "_claim", lambda alias, request: [])
        with clock.frozen_at(database_now()):
            add(when=NOT_YET)
            assert bench.poller.poll() == pytest.approx(NOT_YET.total_seconds())

    @pytest.mark.parametrize("strategy", ["auto", "compare_and_set"])
    def test_both_strategies_claim_no_further_ahead(self, make_bench: Any, strategy: str) -> None:
        handler_of(lambda task: None)
        bench = make_bench(lookahead=Steady, claim=strategy)
        with clock.frozen_at(database_now()):
            add("in", when=AHEAD)
            add("out", when=AHEAD + timedelta(microseconds=1))
            while not bench.poller.poll():
                pass
        assert bench.numbers == ["in"]

    def test_paused_queue_is_respected(self, bench: Bench) -> None:
        from django_delayed_tasks import pause_queue

        handler_of(lambda task: None)
        with clock.frozen_at(database_now()):
            add(when=NOT_YET)
            pause_queue("default")
            bench.poller.poll()
        assert bench.numbers == []


@pytest.mark.parametrize(
    ("then", "outcome"), [(NextState.RELEASED, RunOutcome.LOST), (NextState.RESCUED, RunOutcome.LOST)]
)
def test_claim_that_ends_unrun_leaves_the_task_its_time(then: NextState, outcome: RunOutcome) -> None:
    with clock.frozen_at(database_now()):
        task = claim_ahead()
        settle("default", [Settlement(task.claim, outcome, then)])
        row = Task.objects.get()
    assert row.status == TaskStatus.PENDING
    assert row.claim_at == row.when == task.when


def test_retry_is_held_until_it_may_be_claimed_and_not_taken_for_an_early_run() -> None:
    with clock.frozen_at(database_now()):
        add()
        later = database_now() + NOT_YET
        Task._base_manager.update(claim_at=later)
        request = ClaimRequest(registered(), "default", 0, 10, ahead=AHEAD)
        [task] = strategy_for("default", "auto")("default", request)
        Lookahead(ExecutorOptions()).mark([task])
    assert not_before([task]) == later > task.when
    assert not is_early(task)


class TestHolding:
    def test_until_the_databases_clock_shows_the_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = HandClock()
        told.moment = moment = database_now()
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            told.moment += timedelta(seconds=seconds / 2)  # it is slow

        monkeypatch.setattr("time.sleep", sleep)
        with clock.frozen_at(moment):
            task = claim_ahead()
        hold_until(task, moment + NOT_YET)
        assert hold_until_due([task], told)
        assert timedelta() <= told.moment - (moment + NOT_YET) < timedelta(microseconds=3)
        assert slept[0] == pytest.approx(NOT_YET.total_seconds() - OVERSLEPT, abs=0.00001)

    def test_a_sleep_that_ends_a_little_late_is_not_too_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = HandClock()
        told.moment = moment = database_now()

        def sleep(seconds: float) -> None:
            told.moment += timedelta(seconds=seconds + OVERSLEPT / 2)

        monkeypatch.setattr("time.sleep", sleep)
        with clock.frozen_at(moment):
            task = claim_ahead()
        hold_until(task, moment + NOT_YET)
        assert hold_until_due([task], told)
        assert timedelta() <= told.moment - (moment + NOT_YET) < timedelta(microseconds=3)

    def test_not_for_ever_when_the_clock_was_set_back(self) -> None:
        told = HandClock()
        with clock.frozen_at(database_now()):
            task = claim_ahead()
            Lookahead(ExecutorOptions()).mark([task])
            told.moment = database_now() - timedelta(hours=1)
        assert not hold_until_due([task], told)

    def test_what_was_due_is_not_held(self) -> None:
        told = HandClock()
        told.moment = database_now() - timedelta(days=1)
        add()
        [task] = strategy_for("default", "auto")("default", ClaimRequest(registered(), "default", 0, 10))
        assert hold_until_due([task], told)


class TestLength:
    def test_slowest_of_late_but_not_too_long(self) -> None:
        one = Lookahead(ExecutorOptions())
        assert one.length == timedelta(seconds=MARGIN)
        one.note_reading(0.003)
        one.note_claim(0.004)
        assert one.length == timedelta(seconds=0.007 + MARGIN)
        one.note_claim(10.0)
        assert one.length == timedelta(seconds=MAX_HOLD)
        for _ in range(REMEMBERED):
            one.note_claim(0.001)
        assert one.length == timedelta(seconds=0.004 + MARGIN)


@pytest.mark.django_db(transaction=True)
class TestExecutor:
    def test_nothing_starts_early(self) -> None:
        starts: list[timedelta] = []

        def handle(task: Any) -> None:
            starts.append(database_now() - task.when)

        handler_of(handle)
        with executing(poll_interval=0.05):
            for number in range(30):
                add(str(number), when=timedelta(milliseconds=200 + 10 * number))
            wait_until(lambda: len(starts) == 30)
        assert min(starts) >= timedelta(0)

    def test_what_cannot_be_held_is_given_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ran: list[str] = []
        handler_of(lambda task: ran.append(task.biz_num))
        refusals = iter([False])
        with executing() as executor:
            monkeypatch.setattr(worker, "hold_until_due", lambda tasks, clock: next(refusals, True))
            add()
            wait_until(lambda: ran)
            wait_until(lambda: not Task.objects.exists())
            assert ran == ["1"]
            assert executor.capacity.claimed == 1

    def test_drain_takes_only_what_is_due(self) -> None:
        handler_of(lambda task: None)
        add("due")
        add("later", when=timedelta(hours=1))
        with executing(drain=True) as executor:
            assert executor.lookahead.length == timedelta()
            assert executor.drained.wait(30)
        assert Task.objects.get().biz_num == "later"


class TestDatabaseClock:
    """The test sets the monotonic clock; the database's is 1000 s ahead of it."""

    @pytest.fixture(autouse=True)
    def at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.second = 0.0
        monkeypatch.setattr(clock, "monotonic", lambda: self.second)

    def shown(self, second: float) -> datetime:
        return clock.EPOCH + timedelta(seconds=1000 + second)

    def ask(self, one: DatabaseClock, asked: float, answered: float, heard: float, ahead: float = 0.0) -> float:
        """Return how many seconds the clock then is behind the database's, to the nearest ten microseconds."""
        self.second = heard
        one.set(self.shown(answered + ahead), asked)
        return round((self.shown(heard + ahead) - one.now()).total_seconds(), 5)

    def test_quicker_answer_counts(self) -> None:
        one = DatabaseClock()
        assert self.ask(one, 0.0, 0.5, 0.6) == 0.1
        behind = self.ask(one, 1.0, 1.1, 1.6)
        assert 0.1 <= behind < 0.101
        assert self.ask(one, 2.0, 2.1, 2.15) == 0.05

    def test_it_is_never_ahead_of_one_that_goes_slower(self) -> None:
        one = DatabaseClock()
        self.ask(one, 0.0, 0.0, 0.0)
        for step in range(1, 1000):
            lost = step * clock.DRIFT  # of each second
            assert self.ask(one, step, step, step + 0.5, ahead=-lost) >= 0

    @pytest.mark.parametrize("set_by", [-3600.0, -1.0, 3600.0])
    def test_clock_that_was_set_is_believed(self, set_by: float) -> None:
        one = DatabaseClock()
        self.ask(one, 0.0, 0.5, 0.6)
        assert self.ask(one, 1.0, 1.1, 1.6, ahead=set_by) == 0.5

    def test_first_answer_counts_whatever_the_hosts_clock_says(self) -> None:
        assert self.ask(DatabaseClock(), 0.0, 0.0, 5.0) == 5


def test_released_settlement_is_what_the_executor_gives_back() -> None:
    """What :meth:`Executor._perform` does with what could not be held, in the store."""
    with clock.frozen_at(database_now()):
        task = claim_ahead()
        settle("default", [released(task)])
        assert Task.objects.get().attempts == 0
        request = ClaimRequest(registered("other"), "default", 0, 10)
        assert strategy_for("default", "auto")("default", request) == []

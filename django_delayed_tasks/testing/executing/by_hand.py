"""An executor by hand, joined as in production, whose parts are turned in the caller's thread.

What has threads or connections of its own in production is done here in the thread, the connection and the transaction
of the caller: runs, also of async handlers, their settlement, and reports of failures.
"""

from asyncio import CancelledError
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import chain
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.db.models import Count, Min, Q, QuerySet

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.watchdog import settle_abandoned
from django_delayed_tasks.handlers import find, registry
from django_delayed_tasks.models import PausedQueue, Resource, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.agenda import Level, read_agenda
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.resources.rate_tokens import KEY_STARTS, STARTS
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.lanes import UNLIMITED, is_limited
from django_delayed_tasks.testing.executing.as_committed import as_committed
from django_delayed_tasks.testing.executing.stand_ins import ExecutorHere
from django_delayed_tasks.testing.executing.timeouts import timed
from django_delayed_tasks.testing.faults import Crash, LostClaim, meeting, take_fault
from django_delayed_tasks.testing.runs import Ran, ran

Decided = dict[Claim, tuple[ClaimedTask, Settlement]]
"""By claim: the task, and how its run is to be settled."""

LEASE: Final = 3600.0
"""Seconds that the lease lasts: there is no heartbeat, and a test may be stopped in a debugger."""


class ByHand:
    """An executor whose loops the caller turns."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        # One thread and one claim at a time: the order of the runs is that of their priorities and times.
        self._options = from_settings(database=alias, threads=1, batch_size=1, lease=LEASE, drain=True)
        self._lease = Lease(self._options)
        self._unknown: set[str] = set()

    def begin(self) -> None:
        """Register, and make a new executor: what its parts remember is of another time, if the clock was moved.

        Raises:
            TaskException: a transaction is open that is not a TestCase's.
        """
        if not (self._lease.executor and self._lease.renew()):
            self._lease.acquire()
        self._settled: set[Claim] = set()
        self._executor = ExecutorHere(self._options, self._lease)
        self._held, self._settler = self._executor.held, self._executor.settler
        self._executor.housekeeping.reap()

    def turn(self) -> list[Ran] | None:
        """Claim what is due next, and run it; return the runs that ended, or None if nothing was due that may run."""
        self._claim()
        if not len(self._held):
            return None
        ended = self._settle({})
        while (batch := self._next_batch()) is not None:
            ended += self._perform(batch)
        return ended

    def _claim(self) -> None:
        """Claim a task, or a batch; tasks of limited handlers wait in lanes, and may have a higher priority."""
        self._executor.poller.forget()
        agenda = read_agenda(self._alias)
        due = [level for level in (*agenda.levels, *agenda.lanes) if level.earliest <= agenda.now]
        if due and is_limited(min(due, key=_place).lane):
            self._executor.lanes.show(agenda)
            self._executor.lanes.tick()
        for _ in range(2):  # tasks with limits may have to be looked at first
            if not len(self._held):
                self._executor.poller.poll()

    def _next_batch(self) -> Batch | None:
        if batches := self._executor.awaited.batches:
            return batches.popleft()
        run = self._executor.queue.get() if len(self._executor.queue) else None
        return run.tasks if run else None

    def _perform(self, batch: Batch) -> list[Ran]:
        handler = find(batch[0].biz_code)
        fault = take_fault(batch[0].biz_code)
        if isinstance(fault, LostClaim):
            self._lose(batch)
        with self._deciding() as decided:
            try:
                with meeting(fault, handler), as_committed():
                    self._run(batch)
            finally:
                ended = self._die() if isinstance(fault, Crash) else self._settle(decided)
        for one in ended:
            if one.exception is not None and not isinstance(one.exception, Exception | SystemExit | CancelledError):
                raise one.exception  # the user has pressed Ctrl-C, or the handler has called pytest.fail()
        return ended

    def _run(self, batch: Batch) -> None:
        running = CurrentRun(batch, clock.monotonic())
        is_async = batch[0].biz_code in registry.async_codes
        performer = self._executor.performer
        perform = async_to_sync(performer.aperform) if is_async else performer.perform
        with timed(running):
            try:
                project.within(running, perform, running)
            except BaseException as error:
                performer.fail_run(running, error)
        if running.is_abandoned:
            settle_abandoned(running, self._held, self._executor.clock, "its end does not count")

    @contextmanager
    def _deciding(self) -> Iterator[Decided]:
        """Collect how the runs in the block are to be settled, also runs that settle themselves."""
        decided: Decided = {}

        def note(task: ClaimedTask, decision: Settlement, **_: Any) -> None:
            if task.executor == self._lease.executor:
                decided[task.claim] = task, decision

        signals.run_finished.connect(note)
        try:
            yield decided
        finally:
            signals.run_finished.disconnect(note)

    def _settle(self, decided: Decided) -> list[Ran]:
        """Settle the runs that have ended; return them, and the runs of ``decided`` that have settled themselves."""
        ended = self._take_ended()
        before = {claim: task for claim in ended if (task := self._held.get(claim))}
        self._settler.became = {}
        self._settled = decided.keys() - ended.keys()
        if ended:
            self._settler.settle(list(ended.values()))
        self._settled |= self._settler.became.keys()
        all_ended = decided | {claim: (task, ended[claim]) for claim, task in before.items()}
        self._unknown |= {task.biz_code for task, _ in all_ended.values() if find(task.biz_code) is None}
        return [self._ran(*one) for one in all_ended.values() if _has_run(one[1])]

    def _take_ended(self) -> dict[Claim, Settlement]:
        ended: dict[Claim, Settlement] = {}
        while not self._held.ended.empty():
            if settlement := self._held.ended.get():
                ended.setdefault(settlement.claim, settlement)
        return ended

    def _ran(self, task: ClaimedTask, settlement: Settlement) -> Ran:
        became = self._settler.became.get(task.claim)
        outcome = settlement.outcome if became is settlement.then else self._outcome(task, settlement)
        if became is NextState.GONE:
            return ran(task, settlement, outcome)
        row = Task.objects.using(self._alias).filter(pk=task.id).values_list("status", "claim_at").first()
        return ran(task, settlement, outcome, *(row or ()))

    def _outcome(self, task: ClaimedTask, settlement: Settlement) -> RunOutcome:
        """Return how a run ended to which something has happened meanwhile, or that has settled itself."""
        runs = TaskRun.objects.using(self._alias).filter(task_id=task.id, version=task.version)
        recorded = runs.values_list("outcome", flat=True).first()
        if recorded is not None:
            return RunOutcome(recorded)
        return settlement.outcome if task.claim in self._settled else RunOutcome.LOST

    def _lose(self, batch: Batch) -> None:
        """Let another executor take these tasks, as after this one was declared dead."""
        why = "the test has let another executor take it"
        self._settler.write([Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED, error=why) for task in batch])

    def _die(self) -> list[Ran]:
        """Lose all claims, as if the process had died, and continue as another one that reaps them."""
        lost = self._held.tasks()
        self._lease.acquire()  # by which the former registration is known to have ended without having stopped
        self.begin()
        why = "its executor died"
        return [self._ran(task, Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED, error=why)) for task in lost]

    def next_due(self, until: datetime) -> datetime | None:
        """Return the next moment after now, and not after ``until``, at which a task may run."""
        moments = [moment for moment in (self._next_claim(until), self._next_token(until)) if moment]
        return min(moments, default=None)

    def _next_claim(self, until: datetime) -> datetime | None:
        waiting = self._pending().filter(claim_at__gt=clock.host_now(), claim_at__lte=until)
        earliest: datetime | None = waiting.aggregate(earliest=Min("claim_at"))["earliest"]
        return earliest

    def _next_token(self, until: datetime) -> datetime | None:
        """Return when the next rate token is free, if a due task may wait for it."""
        if not self._pending().filter(claim_at__lte=clock.host_now()).exclude(lane__in=UNLIMITED).exists():
            return None
        tokens = Resource.objects.using(self._alias).filter(Q(pool__startswith=STARTS) | Q(pool__startswith=KEY_STARTS))
        held = tokens.filter(enabled=True, busy_before__gt=clock.host_now(), busy_before__lte=until)
        earliest: datetime | None = held.aggregate(earliest=Min("busy_before"))["earliest"]
        return earliest

    def _pending(self) -> "QuerySet[Task]":
        """Return the pending tasks in queues that are not paused, of codes that have a handler as far as is known."""
        paused = PausedQueue.objects.using(self._alias).values("queue")
        pending = Task.objects.using(self._alias).filter(status=TaskStatus.PENDING)
        return pending.exclude(queue__in=paused).exclude(biz_code__in=self._unknown)

    def waiting(self) -> str:
        """Return which due tasks have not run, and what they wait for; empty if there are none."""
        due = Q(claim_at__lte=clock.host_now()) | Q(biz_code__in=self._unknown)
        tasks: Any = Task.objects.using(self._alias).filter(due, status=TaskStatus.PENDING).order_by()
        counts = sorted(tasks.values_list("biz_code", "queue").annotate(Count("pk")))
        paused = set(PausedQueue.objects.using(self._alias).values_list("queue", flat=True))
        each = [f"{code} x{count}, {_reason(code, queue, paused)}" for code, queue, count in counts]
        total = sum(count for *_, count in counts)
        return f"{total} due {'task waits' if total == 1 else 'tasks wait'}: {'; '.join(each)}" if each else ""

    def end(self) -> None:
        """Release what has not run, and end the lease."""
        self._held.release([*self._executor.queue.take_back(), *chain(*self._executor.awaited.batches)])
        try:
            self._settle({})
        finally:
            self._lease.end()


def _has_run(settlement: Settlement) -> bool:
    return settlement.then is not NextState.RELEASED or settlement.started is not None


def _reason(code: str, queue: str, paused: Container[str]) -> str:
    handler = find(code)
    if queue in paused:
        return f"queue {queue!r} is paused"
    if handler is None:
        return "no handler"
    return f"pool {handler.pool!r}" if handler.pool else "a limit" if handler.is_limited else "claimed elsewhere"


def _place(level: Level) -> tuple[int, datetime]:
    return -level.priority, level.earliest


@contextmanager
def by_hand(alias: str) -> Iterator[ByHand]:
    """Yield an executor that is registered until the end of the block."""
    executor = ByHand(alias)
    executor.begin()
    try:
        yield executor
    except BaseException:
        with suppress(Exception):  # the first error says what is wrong
            executor.end()
        raise
    executor.end()

"""The settler writes how runs ended, in natural batches: all that ended while the last batch was being committed.

The progress that runs report is written here, too, in a thread and on a connection of its own.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from math import inf
from queue import Empty
from threading import TIMEOUT_MAX
from typing import Any, Protocol

from django.db import DatabaseError, InterfaceError, connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.settling.run_log import logs_good_ends
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.executor.threads.loop import Loop
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lose, planned, put_back, take_report
from django_delayed_tasks.store.records.progress import write_progress
from django_delayed_tasks.store.schedules.recurrence import recurrence
from django_delayed_tasks.store.settling.settle import Chunk, SettleResult, Wait, in_chunks, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.charsets import in_ascii
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.kept_connections import Access, access_to, is_current
from django_delayed_tasks.store.sql.transactions import is_transient, is_unwritable
from django_delayed_tasks.store.validation import storable
from django_delayed_tasks.support.durations import listed, plural
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.triggers import next_run

logger = Log(__name__)

LOST = "lost before"
"""What the log says of the claim of a run that ended too late."""
LOCKED_PAUSE = 0.5
"""Seconds between two attempts to settle rows that another transaction has locked."""
COMPLAINT_EVERY = 60.0
"""Seconds between two lines of the log about rows that stay locked."""
MAX_BREAKS = 5
"""Broken connections in a row, while new ones work, after which the batch itself is taken for the
cause: it may exceed the server's ``max_allowed_packet``, which ends the connection without an error message."""


class HandsOn(Protocol):
    """The part that hands slots on, in the settler's thread."""

    def hand_on(self, batch: list[Settlement]) -> SettleResult | None:
        """Settle, and claim the next tasks for the slots, in one transaction; None if nothing is to be handed on."""

    def resume(self) -> None:
        """Hand slots on again after an error, since runs were settled without that."""


class _Names(tuple[Any, ...]):
    """The tasks that a line of the log names. A handler may have left anything in them: the log catches errors."""

    def __str__(self) -> str:
        return listed(list(map(str, self)))


class Settler(Loop):
    """The loop that settles what has ended; it sleeps until something has.

    It backs off during an outage, and keeps its batch: runs that ended are not run again because of it."""

    def __init__(self, alias: str, held: Held, failures: FailureReports, relay: HandsOn) -> None:
        super().__init__("settler", alias, self._settle_next)
        self._held = held
        self._failures = failures
        self._relay = relay
        self._batches: list[list[Settlement]] = []
        self._breaks = 0
        self._locked: list[Settlement] = []
        self._locked_until = 0.0
        self._locked_since: dict[Claim, float] = {}
        self._complained = -inf
        self._is_finishing = False

    def finish(self, timeout: float) -> bool:
        """Settle what is left and end; return False if that takes longer than ``timeout`` seconds."""
        self._held.ended.put(None)
        self._thread.join(timeout)
        self._stopped.set()
        return not self.is_alive

    def _settle_next(self) -> float:
        if self._locked:
            self._batches += in_chunks(self._take_locked())
        if self._batches:
            self._settle_first()
        else:  # at the start, before handlers open and keep theirs: the server may have too few for all threads
            kept_connections.opened(self._alias)
        return self._pause()

    def _pause(self) -> float:
        """Return for how many seconds to wait for further ends; end if none is left."""
        if self._batches:
            return 0.0
        if self._locked:
            return LOCKED_PAUSE
        if self._is_finishing and self._held.ended.empty():
            self._stopped.set()
        return 0.0 if self._is_finishing else TIMEOUT_MAX

    def _sleep(self, seconds: float) -> None:
        """Sleep until something has ended; with a batch left, which is so after an error, for all of these seconds."""
        if self._batches:
            self._stopped.wait(seconds)
        elif batch := self._next_batch(seconds):
            self._batches.append(batch)

    def _take_locked(self) -> list[Settlement]:
        """Return the settlements whose rows were locked, if it is time to try them again."""
        if clock.monotonic() < self._locked_until:
            return []
        locked, self._locked = self._locked, []
        return locked

    def _next_batch(self, seconds: float = 0.0) -> list[Settlement]:
        """Return the queued settlements that fit into one batch; empty if there are none for ``seconds``."""
        batch = Chunk()
        with suppress(Empty):
            settlement = self._held.ended.get(timeout=seconds)
            while settlement is None or not batch.add(settlement):
                self._is_finishing |= settlement is None
                settlement = self._held.ended.get_nowait()
        return batch.settlements

    def settle(self, batch: list[Settlement]) -> None:
        """Settle a batch; postpone rows that other transactions have locked.

        Raises:
            DatabaseError: the database is away; the batch is settled with the next one.
        """
        self._batches.append(batch)
        while self._batches:
            self._settle_first()

    def _settle_first(self) -> None:
        self._batches[:1] = self._settle(self._batches[0])

    def _settle(self, batch: list[Settlement]) -> list[list[Settlement]]:
        """Settle a batch; return what is to be settled in its place if it cannot be written as it is."""
        used = None
        try:
            used = kept_connections.opened(self._alias)
            ended = self.write(batch)
        except Exception as error:
            has_broken = used and not is_current(self._alias, used) and not is_transient(error)
            is_away = has_broken and access_to(connections[self._alias]) is not Access.WRITE
            self._breaks = self._breaks + 1 if has_broken and not is_away else 0
            if used is None or (self._breaks < MAX_BREAKS and _may_pass(error)):
                raise
            self._breaks = 0
            return self._apart(batch, error)
        self._breaks = 0
        self._note_ends(batch, ended)
        return []

    def write(self, batch: list[Settlement]) -> SettleResult:
        """Settle in one transaction, without rows that stay locked for longer than a second."""
        if self._held.limited and (ended := self._relay.hand_on(batch)):
            return ended
        ended = settle(self._alias, batch, Wait.A_SECOND)
        self._relay.resume()
        return ended

    def _note_ends(self, batch: list[Settlement], ended: SettleResult) -> None:
        if ended.waiting:
            self._put_aside([settlement for settlement in batch if settlement.claim in ended.waiting])
            batch = [settlement for settlement in batch if settlement.claim not in ended.waiting]
        self._report(batch, ended.became)
        if self._locked_since:
            for settlement in batch:
                self._locked_since.pop(settlement.claim, None)
        self._held.remove([settlement.claim for settlement in batch])

    def _put_aside(self, locked: list[Settlement]) -> None:
        now = clock.monotonic()
        for settlement in locked:
            self._locked_since.setdefault(settlement.claim, now)
        self._complain(now)
        self._locked += locked
        self._locked_until = now + LOCKED_PAUSE

    def _complain(self, now: float) -> None:
        if now - self._complained < COMPLAINT_EVERY:
            return
        self._complained = now
        count, longest = len(self._locked_since), now - min(self._locked_since.values())
        what = plural(count, "run has ended, but its end", "runs have ended, but their ends")
        since = f" for {longest:.0f} s" if longest >= 1 else ""
        logger.warning(
            "%d %s cannot be written%s, because another transaction has locked the row, or the database accepts no "
            "writes; trying again: %s", count, what, since, self._named(self._locked_since),
        )  # fmt: skip

    def _named(self, claims: Iterable[Claim]) -> "_Names":
        return _Names(self._held.get(claim) or f"the task with the id {claim[0]}" for claim in claims)

    def _report(self, batch: list[Settlement], became: dict[Claim, NextState]) -> None:
        tally_of(self._alias).count(batch, became, self._held.get)
        with_good_ends = logs_good_ends()
        for settlement in batch:
            if settlement.outcome is RunOutcome.DONE and not with_good_ends:
                continue
            then, task = became.get(settlement.claim), self._held.get(settlement.claim)
            if then and task:
                self._failures.report(task, settlement, then)
        if len(became) < len(batch):
            lost = [settlement.claim for settlement in batch if settlement.claim not in became]
            text = plural(len(lost), f"claim was {LOST} its run", f"claims were {LOST} their runs")
            again = plural(len(lost), "the task", "the tasks")
            logger.warning("%d %s ended, so %s may run again: %s", len(lost), text, again, self._named(lost))

    def _apart(self, batch: list[Settlement], error: Exception) -> list[list[Settlement]]:
        """Find the settlement that cannot be written, and let its task fail visibly instead."""
        if len(batch) > 1:
            return [[settlement] for settlement in batch]
        logger.error("settling %s failed: %s", self._named([batch[0].claim]), error)
        self._fail(batch[0], error)
        return []

    def _fail(self, settlement: Settlement, error: Exception) -> None:
        text = in_ascii(storable(f"the settlement could not be written: {error}"))
        visible = Settlement(
            settlement.claim, RunOutcome.FAILED, NextState.FAILED,
            error=text, stood_for=settlement.stood_for, exception=error,
        )._replace(**self._next_time(settlement))  # fmt: skip
        try:
            ended = self.write([visible])
            self._note_ends([visible], ended)
        except Exception as second:
            if _may_pass(second):
                self._put_aside([visible])
            else:
                logger.exception("%s stays claimed until this executor ends", self._named([settlement.claim]))

    def _next_time(self, settlement: Settlement) -> dict[str, Any]:
        """Return the fields of a settlement with which a recurring task recurs after all; none if it cannot."""
        if settlement.then is NextState.RECUR:
            return {"then": NextState.RECUR, "when": settlement.when, "after": settlement.after}
        task, finished = self._held.get(settlement.claim), settlement.finished or clock.host_now()
        with suppress(InvalidTrigger, OverflowError):
            return next_time_of(task, settlement.started or finished, finished) if task else {}
        return {}


def _may_pass(error: Exception) -> bool:
    return isinstance(error, DatabaseError | InterfaceError) and not is_unwritable(error)


def next_time_of(task: ClaimedTask, started: datetime, finished: datetime) -> dict[str, Any]:
    """Return the fields of a settlement that schedule the next run; empty if the task does not recur.

    Raises:
        InvalidTrigger: the text in the row is not a valid trigger.
        OverflowError: the next time is beyond the range of dates.
    """
    trigger = task.trigger
    if trigger is None:
        return {}
    return recurrence(trigger, planned(task) or next_run(trigger, task.when, started, max(finished, task.when)))


class ProgressReports:
    """Writes the progress reports of the tasks that are held; :meth:`write` is one iteration."""

    def __init__(self, alias: str, held: Held) -> None:
        self._alias = alias
        self._held = held

    def write(self) -> float:
        """Write the latest report of each run that made one; return the seconds until the next write."""
        tasks = {task.claim: task for task in self._held.tasks()}
        reports = {claim: report for claim, task in tasks.items() if (report := take_report(task))}
        if reports:
            try:
                waiting, lost = write_progress(self._alias, reports)
            except BaseException:
                for claim, report in reports.items():
                    put_back(tasks[claim], report)
                raise
            for claim in waiting:
                put_back(tasks[claim], reports[claim])
            for claim in lost:
                lose(tasks[claim])
        return 1.0

"""The settler writes how runs ended, in natural batches: all that ended while the last batch was being committed.

The progress that runs report is written here, too, in a thread and on a connection of its own.
"""

from contextlib import suppress
from datetime import datetime
from queue import Empty
from threading import Event, Thread
from typing import Any, Protocol

from django.db import DatabaseError, InterfaceError
from django.db import connections as django_connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.settling.run_log import logs_good_ends
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.executor.threads.loop import Backoff, Busy
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lose, planned, put_back, take_report
from django_delayed_tasks.store.records.progress import write_progress
from django_delayed_tasks.store.schedules.recurrence import recurrence
from django_delayed_tasks.store.settling.settle import Chunk, Ended, Wait, in_chunks, settle
from django_delayed_tasks.store.settling.settlement import Settlement, plain
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.escapes import in_ascii
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.transactions import give_up_connection, is_transient, is_unwritable
from django_delayed_tasks.store.validation import storable
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.triggers import next_run

logger = Log(__name__)

LOCKED_PAUSE = 0.5
"""Seconds between two attempts to settle rows that another transaction has locked."""
MOST_BREAKS = 5
"""Broken connections in a row, while new ones work, after which the batch itself is taken for the
cause: it may exceed the server's ``max_allowed_packet``, which ends the connection without an error message."""


class HandsOn(Protocol):
    """The part that hands slots on, in the settler's thread.

    Attributes:
        may_hand_on: set when runs were settled without it: it hands on nothing between an error and that.
    """

    may_hand_on: bool

    def hand_on(self, batch: list[Settlement]) -> Ended | None:
        """Settle, and claim the next tasks for the slots, in one transaction; None if nothing is to be handed on."""


class Settler:
    """A thread that settles what has ended.

    It waits during an outage: runs that ended are not run again because of it."""

    def __init__(self, alias: str, held: Held, failures: FailureReports, relay: HandsOn) -> None:
        self._alias = alias
        self._held = held
        self._failures = failures
        self._relay = relay
        self._backoff = Backoff()
        self._locked: list[Settlement] = []
        self._locked_until = 0.0
        self._is_finishing = False
        self._busy = Busy()
        self._give_up = Event()
        self._thread = Thread(target=self._loop, name="settler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def name(self) -> str:
        """The name of the thread."""
        return self._thread.name

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def busy_for(self) -> float:
        """Return how many seconds the settler has waited for the database; 0 if it does not wait."""
        return self._busy.seconds()

    def finish(self, timeout: float) -> bool:
        """Settle what is left and end; return False if that takes longer than ``timeout`` seconds."""
        self._held.ended.put(None)
        self._thread.join(timeout)
        self._give_up.set()
        return not self._thread.is_alive()

    def _loop(self) -> None:
        with kept_connections.of_thread(self._alias) as own:
            own.begin_in_one_statement()
            self._connect()
            while not self._has_ended():
                if self._locked:
                    self._settle_taken()
                self._settle_safely(self._next_batch())

    def _connect(self) -> None:
        """Open the connection before handlers open and keep theirs.

        Even if the server has too few connections for all threads, runs that ended are settled.
        """
        with suppress(Exception):  # tried again when there is something to settle
            kept_connections.opened(self._alias)

    def _settle_safely(self, batch: list[Settlement]) -> None:
        try:
            if batch:
                self.settle(batch)
        except BaseException:
            logger.exception("settling %d %s failed", len(batch), plural(len(batch), "run"))
            self._put_aside(batch)

    def _settle_taken(self) -> None:
        for portion in in_chunks(self._take_locked()):
            self._settle_safely(portion)

    def _take_locked(self) -> list[Settlement]:
        """Return the settlements whose rows were locked, if it is time to try them again."""
        if clock.monotonic() < self._locked_until:
            return []
        locked, self._locked = self._locked, []
        return locked

    def _patience(self) -> float | None:
        if self._locked:
            return LOCKED_PAUSE
        return 0.0 if self._is_finishing else None

    def _has_ended(self) -> bool:
        is_done = self._is_finishing and self._held.ended.empty()
        return is_done and (not self._locked or self._give_up.is_set())

    def _next_batch(self) -> list[Settlement]:
        """Return the queued settlements that fit into one batch; empty if it is time to try locked rows, or to end."""
        batch = Chunk()
        with suppress(Empty):
            settlement = self._held.ended.get(timeout=self._patience())
            while settlement is None or not batch.add(settlement):
                self._is_finishing |= settlement is None
                settlement = self._held.ended.get_nowait()
        return batch.settlements

    def settle(self, batch: list[Settlement]) -> None:
        """Settle the batch, however long the database is away; postpone rows that other transactions have locked."""
        breaks = 0
        while not self._give_up.is_set():
            used = None
            try:
                with self._busy:
                    used = kept_connections.opened(self._alias)
                    ended = self.write(batch)
            except Exception as error:
                has_broken = kept_connections.has_broken(self._alias, used) and not is_transient(error)
                breaks = breaks + 1 if has_broken and kept_connections.does_answer(self._alias) else 0
                if breaks < MOST_BREAKS and _may_pass(error):
                    give_up_connection(self._alias, error)
                    self.wait(error)
                    continue
                self._settle_apart(batch, error)
            else:
                self._note_ends(batch, ended)
            return

    def write(self, batch: list[Settlement]) -> Ended:
        """Settle in one transaction, without rows that stay locked for longer than a second."""
        if self._held.limited and (ended := self._relay.hand_on(batch)):
            return ended
        ended = settle(self._alias, batch, Wait.A_SECOND)
        self._relay.may_hand_on = True
        return ended

    def _note_ends(self, batch: list[Settlement], ended: Ended) -> None:
        if ended.waiting:
            self._put_aside([settlement for settlement in batch if settlement.claim in ended.waiting])
            batch = [settlement for settlement in batch if settlement.claim not in ended.waiting]
        self._report(batch, ended.became)
        self._held.remove([settlement.claim for settlement in batch])

    def _put_aside(self, locked: list[Settlement]) -> None:
        what = plural(len(locked), "task waits", "tasks wait")
        logger.warning("%d %s to be settled, such as %s", len(locked), what, locked[0].claim)
        self._locked += locked
        self._locked_until = clock.monotonic() + LOCKED_PAUSE

    def wait(self, error: Exception) -> None:
        """Wait after an error that may pass."""
        if not self._backoff.failures:
            logger.warning("settling waits for the database: %s", error)
        self._backoff.wait(self._give_up)

    def _report(self, batch: list[Settlement], became: dict[Claim, Then]) -> None:
        if self._backoff.failures:
            self._backoff.succeeded()
            logger.warning("settling continues")
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
            text = plural(len(lost), "claim was gone when its run", "claims were gone when their runs")
            logger.warning("%d %s ended: %s", len(lost), text, lost[:10])

    def _settle_apart(self, batch: list[Settlement], error: Exception) -> None:
        """Find the settlement that cannot be written, and write it in ASCII or let its task fail visibly instead."""
        if len(batch) > 1:
            for settlement in batch:
                self.settle([settlement])
            return
        simpler = plain(dialect_of(django_connections[self._alias]), batch[0])
        if simpler != batch[0] and is_unwritable(error):
            logger.warning("settling %s failed, its texts are written in ASCII: %s", batch[0].claim, error)
            self.settle([simpler])
            return
        logger.error("settling %s failed: %s", batch[0].claim, error)
        self._fail(batch[0], error)

    def _fail(self, settlement: Settlement, error: Exception) -> None:
        text = in_ascii(storable(f"the settlement could not be written: {error}"))
        visible = Settlement(
            settlement.claim, RunOutcome.FAILED, Then.FAILED,
            error=text, stood_for=settlement.stood_for, exception=error,
        )._replace(**self._next_time(settlement))  # fmt: skip
        try:
            with self._busy:
                ended = self.write([visible])
            self._note_ends([visible], ended)
        except Exception as second:
            kept_connections.discard_unusable(self._alias)
            if _may_pass(second):
                self._put_aside([visible])
            else:
                logger.exception("task %s stays claimed until this executor ends", settlement.claim)

    def _next_time(self, settlement: Settlement) -> dict[str, Any]:
        """Return the fields of a settlement with which a recurring task recurs after all; none if it cannot."""
        if settlement.then is Then.RECUR:
            return {"then": Then.RECUR, "when": settlement.when, "after": settlement.after}
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


REPORT_EVERY = 1.0
"""Seconds between two writes for one task."""


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
        return REPORT_EVERY

"""The claimed task: what a handler gets as its argument, and what the executor notes on it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.store.records.progress import Report, report_of
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import EXECUTOR, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import decisively, in_one_statement
from django_delayed_tasks.triggers import Trigger, parse_stored

COLUMNS = (
    "id", "version", "biz_code", "biz_num", "when_time", "biz_ext", "queue", "priority", "attempts", "rescues",
    "trigger_text", "expires_at", "once", "claim_at", "trace",
)  # fmt: skip
_MOMENTS = frozenset({"when_time", "expires_at", "claim_at"})
_IN_ORDER = itemgetter(COLUMNS.index("claim_at"), COLUMNS.index("id"))
_read = json.JSONDecoder().raw_decode


_VERSION_BITS = 24
"""The bits of a fencing token for the versions of one row; a token has 63 bits until the 550 billionth row.

A row with more versions, such as one that is claimed each second for 194 days, reaches into the tokens of the next id.
This is harmless if on average one row is added, of any identity, for sixteen million claims.
"""


@dataclass(slots=True, eq=False)
class ClaimedTask:
    """A task as its run sees it: the row as ``executor`` claimed it. ``attempts`` includes the current attempt.

    Attributes:
        claim: it fences every write that follows from it.
        resource: the resource leased to this run from its handler's ``pool``; None without a pool. It has ``name``,
            ``payload``, ``token``, ``check()`` and ``replace()``.
    """

    id: int
    version: int
    biz_code: str
    biz_num: str
    when: datetime
    _data: Any = field(repr=False)  # may hold secrets
    queue: str
    priority: int
    attempts: int
    rescues: int
    alias: str
    executor: int = 0
    _trigger_text: str | None = None
    expires_at: datetime | None = None
    once: bool = False
    _is_early: bool = field(default=False, repr=False)
    _planned: datetime | None = field(default=None, repr=False)
    _asked: float = field(default=float("-inf"), repr=False)
    _answer: bool = field(default=False, repr=False)
    _parsed: Any = field(default=UNCHANGED, repr=False)
    _report: Report | None = field(default=None, repr=False)
    _is_lost: bool = field(default=False, repr=False)
    resource: Any = field(default=None, repr=False)
    _claim_at: Any = field(default=None, repr=False)
    _not_before: datetime | None = field(default=None, repr=False)
    _trigger: Trigger | None = field(default=None, repr=False)
    trace: str | None = field(default=None, repr=False)
    claim: Claim = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # What Claim(...) does; its own __new__ is Python code, and takes three times as long.
        self.claim = tuple.__new__(Claim, (self.id, self.version, self.executor))

    @property
    def trigger(self) -> Trigger | None:
        """The trigger of a recurring task; None for any other task.

        Raises:
            InvalidTrigger: the text in the row is not a valid trigger.
        """
        if self._trigger is None and self._trigger_text is not None:
            self._trigger = parse_stored(self._trigger_text)
        return self._trigger

    @property
    def biz_ext(self) -> Any:
        """The task's data.

        It is parsed on first access, so that a row that was written by other means and cannot be parsed fails only its
        own run.
        """
        if self._parsed is UNCHANGED:
            self._parsed = _parsed(self._data)
        return self._parsed

    @property
    def cancel_requested(self) -> bool:
        """Whether this run has been asked to stop; queries the database at most once a second."""
        if not self._answer and clock.monotonic() - self._asked >= 1.0:
            self._asked = clock.monotonic()
            self._answer = is_cancel_requested(self.alias, self.claim)
        return self._answer

    async def acancel_requested(self) -> bool:
        """Like :attr:`cancel_requested`, to be awaited."""
        return await sync_to_async(lambda: self.cancel_requested)()

    def check_claim(self) -> None:
        """Ask the database whether this run still holds its claim; call it before an effect outside the database.

        Raises:
            ClaimLost: the task was taken from this run, or may be, because the lease of its executor ran out.
            DatabaseError: the database did not answer, so it is unknown whether the claim is still held.
        """
        if self._is_lost or not is_held(self.alias, self.claim):
            self._is_lost = True
            raise ClaimLost(f"{self}: the claim is gone")

    async def acheck_claim(self) -> None:
        """Like :meth:`check_claim`, to be awaited."""
        await sync_to_async(self.check_claim)()

    def progress(self, fraction: float, note: str = "") -> None:
        """Report how far the run has come, for display in the admin; executes no query.

        The executor writes the latest report of each run at most once a second, fenced, on a connection of its own, so
        that it is visible while the transaction of an atomic run is still open.

        Args:
            fraction: a number from 0 to 1.
            note: a text; the first 200 characters are kept.

        Raises:
            InvalidTask: the fraction is not a number from 0 to 1, or the note is not a str.
            ClaimLost: the claim was gone when the last report was written.
        """
        if self._is_lost:
            raise ClaimLost(f"{self}: the claim is gone")
        self._report = report_of(fraction, note)

    @property
    def fencing_token(self) -> int:
        """A number that grows with every claim of this identity; an external system can refuse a smaller one.

        A task that is done and added again is another row: its id is greater, and its version begins at 0.
        """
        return (self.id << _VERSION_BITS) + self.version

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num}"


def recurs(task: ClaimedTask) -> bool:
    """Return whether the task has a trigger, even one that cannot be parsed."""
    return task._trigger_text is not None


def is_early(task: ClaimedTask) -> bool:
    """Return whether a person made the task claimable before its time.

    This is read from the row, not compared with a clock: clocks never quite agree.
    """
    return task._is_early


def claimable_at(task: ClaimedTask) -> datetime:
    """Return the moment from which the row could be claimed; it is in the future if it was claimed ahead of time."""
    return dialect_of(connections[task.alias]).to_datetime(task._claim_at)


def hold_until(task: ClaimedTask, moment: datetime) -> None:
    """Do not let the task start before ``moment``, by the database's clock."""
    task._not_before = moment


def not_before(tasks: Sequence[ClaimedTask]) -> datetime | None:
    """Return the moment before which the tasks must not start; None if all were due when they were claimed."""
    moments = [task._not_before for task in tasks if task._not_before is not None]
    return max(moments) if moments else None


def run_extra(task: ClaimedTask, now: datetime) -> None:
    """Mark this run as an extra one between two times of its trigger: its ``when`` is now, the planned time remains."""
    task._planned, task.when = task.when, now


def planned(task: ClaimedTask) -> datetime | None:
    """Return the planned time that follows an extra run; None for any other run."""
    return task._planned


def forget_extra(task: ClaimedTask) -> None:
    """Undo :func:`run_extra`: the run is about to be started again, for the planned time."""
    if task._planned is not None:
        task.when, task._planned = task._planned, None


def forget_what_was_read(task: ClaimedTask) -> None:
    """Parse the task's data again on the next access: a run that was undone may have changed it."""
    task._parsed = UNCHANGED


def _parsed(data: Any) -> Any:
    """Return the value of JSON text; anything else as it is. For short texts this is faster than ``json.loads``."""
    if type(data) is str:
        try:
            value, end = _read(data)
            if end == len(data):
                return value
        except ValueError:
            pass  # json.loads() raises it with the right words, or knows better
    return json.loads(data) if isinstance(data, str | bytes) else data


def stored_data(task: ClaimedTask) -> str | None:
    """Return the task's data as JSON text, as it is stored."""
    return task._data if isinstance(task._data, str | None) else json.dumps(task._data)


def take_report(task: ClaimedTask) -> Report | None:
    """Return the run's report since the last call, or None; for the executor's thread that writes reports."""
    report, task._report = task._report, None
    return report


def put_back(task: ClaimedTask, report: Report) -> None:
    """Keep a report that could not be written, to be written later, unless the run has made a newer one."""
    if task._report is None:
        task._report = report


def lend(task: ClaimedTask, resource: Any) -> Any:
    """Give the resource to the run; return the one that it had before."""
    before, task.resource = task.resource, resource
    return before


def lose(task: ClaimedTask) -> None:
    """Note that the claim is gone, so that the run's next call raises ClaimLost."""
    task._is_lost = True


def is_lost(task: ClaimedTask) -> bool:
    """Return whether the claim is known to be gone; executes no query."""
    return task._is_lost


def is_cancel_requested(alias: str, claim: Claim) -> bool:
    """Return whether the running task of this claim has been asked to stop."""
    sql = f"SELECT 1 FROM {TASK} WHERE {fence([claim])} AND cancel_requested_at IS NOT NULL"
    return in_one_statement(alias, lambda cursor: _is_there(cursor, sql))


def _is_there(cursor: CursorWrapper, sql: str) -> bool:
    cursor.execute(sql)
    return cursor.fetchone() is not None


def is_held(alias: str, claim: Claim) -> bool:
    """Return whether the claim is held and the lease of its executor has not expired."""
    now = dialect_of(connections[alias]).now
    leased = f"SELECT 1 FROM {EXECUTOR} e WHERE e.id = {TASK}.executor AND e.alive = TRUE AND e.expires_at > {now}"
    sql = f"SELECT 1 FROM {TASK} WHERE {fence([claim])} AND {in_status(RUNNING)} AND EXISTS ({leased})"
    return decisively(alias, lambda cursor: _is_there(cursor, sql))


def held_by(alias: str, executor: int) -> set[Claim]:
    """Return every claim that this executor holds according to the database."""

    def read(cursor: CursorWrapper) -> set[Claim]:
        cursor.execute(f"SELECT id, version FROM {TASK} WHERE status = {RUNNING} AND executor = {executor:d}")
        return {Claim(task_id, version, executor) for task_id, version in cursor.fetchall()}

    return decisively(alias, read)


def load(alias: str, claim: Claim) -> ClaimedTask | None:
    """Return the task of a claim as it is now; None if the claim is not held."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {returned(dialect_of(connection))} FROM {TASK} WHERE {fence([claim])}")
        row = cursor.fetchone()
    return claimed(row, dialect_of(connection), claim.executor or 0) if row else None


def returned(dialect: Dialect, columns: Sequence[str] = COLUMNS) -> str:
    """Return the expressions by which a statement returns these columns."""
    return ", ".join([dialect.returned_moment(column) if column in _MOMENTS else column for column in columns])


def claimed_in_order(rows: Iterable[tuple[Any, ...]], dialect: Dialect, executor: int) -> list[ClaimedTask]:
    """Return rows from RETURNING, which come in no particular order, as tasks in the order in which they are due."""
    return [claimed(row, dialect, executor) for row in sorted(rows, key=_IN_ORDER)]


def claimed(row: tuple[Any, ...], dialect: Dialect, executor: int, newer: int = 0) -> ClaimedTask:
    """Return a row of :data:`COLUMNS` as a task; ``newer`` is 1 if it was read before the UPDATE that claims it."""
    task_id, version, code, num, when, data, queue, priority, attempts, rescues, trigger, expires_at, once, *rest = row
    claim_at, trace = rest
    return ClaimedTask(
        task_id, version + newer, code, num, dialect.to_datetime(when), data, queue, priority,
        attempts + newer, rescues, dialect.connection.alias, executor,
        trigger, None if expires_at is None else dialect.to_datetime(expires_at), bool(once), claim_at < when,
        _claim_at=claim_at, trace=trace,
    )  # fmt: skip

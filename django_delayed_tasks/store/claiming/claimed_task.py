"""What a claim gives its executor."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

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
    "trigger_text", "expires_at", "once", "claim_at",
)  # fmt: skip
_IN_ORDER = itemgetter(COLUMNS.index("claim_at"), COLUMNS.index("id"))


@dataclass(slots=True, eq=False)
class ClaimedTask:
    """A task as its run sees it: the row as it was claimed, by ``executor``. ``attempts`` counts this one."""

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
    _resource: Any = field(default=None, repr=False)
    _claim_at: Any = field(default=None, repr=False)
    _not_before: datetime | None = field(default=None, repr=False)

    @property
    def trigger(self) -> Trigger | None:
        """What makes the task recur, if it does.

        Raises:
            InvalidTrigger: the row's text is that of no trigger.
        """
        return None if self._trigger_text is None else parse_stored(self._trigger_text)

    @property
    def biz_ext(self) -> Any:
        """The task's data.

        Parsed when first asked for: a row that was written by other means and cannot be read fails its own run only.
        """
        if self._parsed is UNCHANGED:
            self._parsed = json.loads(self._data) if isinstance(self._data, str | bytes) else self._data
        return self._parsed

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked for this run to stop; looks at the database once a second at most."""
        if not self._answer and clock.monotonic() - self._asked >= 1.0:
            self._asked = clock.monotonic()
            self._answer = is_cancel_requested(self.alias, self.claim)
        return self._answer

    def check_claim(self) -> None:
        """Ask the database whether this run still has its task: to be called before an effect outside of it.

        Raises:
            ClaimLost: the task was taken from this run, or the lease of its executor ran out, so that it may be.
            DatabaseError: the database did not answer; that the claim is held is then unknown.
        """
        if self._is_lost or not is_held(self.alias, self.claim, self.executor):
            self._is_lost = True
            raise ClaimLost(f"{self}: the claim is gone")

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the run is, for people to look at; costs nothing here.

        The executor writes the latest report of each run once a second at most, fenced, on a connection of its own: it
        is seen while an atomic run's transaction is still open.

        Args:
            fraction: from 0 to 1.
            note: of which the first 200 characters are kept.

        Raises:
            InvalidTask: the fraction or the note cannot be one.
            ClaimLost: the last report found the claim gone.
        """
        if self._is_lost:
            raise ClaimLost(f"{self}: the claim is gone")
        self._report = report_of(fraction, note)

    @property
    def resource(self) -> Any:
        """What its handler's ``pool`` has lent to this run: ``name``, ``payload``, ``token``, ``check()``,
        ``replace()``; None without a pool.
        """
        return self._resource

    @property
    def fencing_token(self) -> int:
        """Grows with every claim of this task; an outside system can refuse a smaller one."""
        return self.version

    @property
    def claim(self) -> tuple[int, int]:
        """(id, version): what fences every write that follows."""
        return self.id, self.version

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num}"


def recurs(task: ClaimedTask) -> bool:
    """Whether it has a trigger, readable or not."""
    return task._trigger_text is not None


def is_early(task: ClaimedTask) -> bool:
    """Whether it was made claimable before its time, by a person. Told by the row: clocks never quite agree."""
    return task._is_early


def claimable_at(task: ClaimedTask) -> datetime:
    """The moment from which its row could be claimed; it may be to come when it was claimed ahead."""
    return dialect_of(connections[task.alias]).to_datetime(task._claim_at)


def hold_until(task: ClaimedTask, moment: datetime) -> None:
    """It is not to start before, by the database's clock."""
    task._not_before = moment


def not_before(task: ClaimedTask) -> datetime | None:
    """When it may start; None: at once."""
    return task._not_before


def run_extra(task: ClaimedTask, now: datetime) -> None:
    """This run is one between two times of its trigger: it stands for now, and the planned one is still to come."""
    task._planned, task.when = task.when, now


def planned(task: ClaimedTask) -> datetime | None:
    """The time that is still to come after an extra run; None for any other."""
    return task._planned


def forget_extra(task: ClaimedTask) -> None:
    """It stands for the planned time again: the run that was one between two times is to begin anew."""
    if task._planned is not None:
        task.when, task._planned = task._planned, None


def forget_what_was_read(task: ClaimedTask) -> None:
    """Its data are parsed anew when next asked for: a run that is undone may have changed them."""
    task._parsed = UNCHANGED


def take_report(task: ClaimedTask) -> Report | None:
    """What its run has reported since this was last called; for the executor's thread that writes it."""
    report, task._report = task._report, None
    return report


def put_back(task: ClaimedTask, report: Report) -> None:
    """It could not be written; unless the run has reported again meanwhile, it is still to be."""
    if task._report is None:
        task._report = report


def lend(task: ClaimedTask, resource: Any) -> Any:
    """The resource is the run's from now on; the one that it had before."""
    before, task._resource = task._resource, resource
    return before


def lose(task: ClaimedTask) -> None:
    """Its claim was found gone: the run is to hear of it."""
    task._is_lost = True


def is_cancel_requested(alias: str, claim: Claim) -> bool:
    """Whether this running task was asked to stop."""
    sql = f"SELECT 1 FROM {TASK} WHERE {fence([claim])} AND cancel_requested_at IS NOT NULL"
    return in_one_statement(alias, lambda cursor: _is_there(cursor, sql))


def changed_meanwhile(alias: str, claims: Sequence[Claim]) -> set[Claim]:
    """Those whose tasks were to be cancelled, or given another schedule, since they were claimed."""
    if not claims:
        return set()
    changed = "(cancel_requested_at IS NOT NULL OR deferred_when IS NOT NULL)"

    def read(cursor: CursorWrapper) -> set[Claim]:
        cursor.execute(f"SELECT id, version FROM {TASK} WHERE {fence(claims)} AND {changed}")
        return {(task_id, version) for task_id, version in cursor.fetchall()}

    return in_one_statement(alias, read)


def _is_there(cursor: CursorWrapper, sql: str) -> bool:
    cursor.execute(sql)
    return cursor.fetchone() is not None


def is_held(alias: str, claim: Claim, executor: int) -> bool:
    """Whether the claim is held and the lease that it was made under goes on."""
    connection = connections[alias]
    now = dialect_of(connection).now
    leased = f"SELECT 1 FROM {EXECUTOR} WHERE id = {executor:d} AND alive = TRUE AND expires_at > {now}"
    sql = f"SELECT 1 FROM {TASK} WHERE {fence([claim])} AND {in_status(RUNNING)} AND EXISTS ({leased})"
    return decisively(alias, lambda cursor: _is_there(cursor, sql))


def load(alias: str, claim: Claim) -> tuple[ClaimedTask, str] | None:
    """The task of a claim as it is now, with its last error; None if it has gone on."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT last_error, {', '.join(COLUMNS)} FROM {TASK} WHERE {fence([claim])}")
        row = cursor.fetchone()
    return (claimed(row[1:], dialect_of(connection), 0), row[0]) if row else None


def claimed_in_order(rows: Iterable[tuple[Any, ...]], dialect: Dialect, executor: int) -> list[ClaimedTask]:
    """Rows that RETURNING gave, which has no order of its own, as claims in the order in which they are due."""
    return [claimed(row, dialect, executor) for row in sorted(rows, key=_IN_ORDER)]


def claimed(row: tuple[Any, ...], dialect: Dialect, executor: int, newer: int = 0) -> ClaimedTask:
    """A row of :data:`COLUMNS` as a claim; ``newer`` is 1 when it was read just before its claiming UPDATE."""
    task_id, version, code, num, when, data, queue, priority, attempts, rescues, trigger, expires_at, once, claim_at = (
        row
    )
    return ClaimedTask(
        task_id, version + newer, code, num, dialect.to_datetime(when), data, queue, priority,
        attempts + newer, rescues, dialect.connection.alias, executor,
        trigger, None if expires_at is None else dialect.to_datetime(expires_at), bool(once), claim_at < when,
        _claim_at=claim_at,
    )  # fmt: skip

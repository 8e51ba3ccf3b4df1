"""The history: rows are written in the transaction that ends the run, and the oldest rows are purged."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import takewhile
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql.dialects import Column, Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import RUN, TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement

COLUMNS = (
    "task_id, version, biz_code, biz_num, attempt, executor, when_time, outcome, started, finished, result, error,"
    " exception, biz_ext"
)
OF_TASK = "t.id, t.version, t.biz_code, t.biz_num, t.attempts, NULLIF(t.executor, 0)"
"""The expressions for the columns before ``when_time``, read from a task row ``t``."""


SMALL: Final = 1024
"""The most bytes of data that the history keeps of every run that failed."""


class KeepsData(IntEnum):
    """Which data of a task the history keeps."""

    NONE = 0
    SMALL = 1
    ALL = 2


class End(NamedTuple):
    """What the history says of how a run ended; ``result`` is JSON text.

    ``exception`` is the path of the class of the exception that ended the run. ``stood_for``: the time that the run of
    a recurring task was for, if it is not the row's.
    """

    id: int
    version: int
    outcome: int
    started: datetime | None
    finished: datetime | None
    result: str | None
    error: str
    exception: str | None
    keeps_data: KeepsData
    stood_for: datetime | None

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


class Ends(NamedTuple):
    """The ends of many runs by column: for each field of :class:`End` the values of all of them, in the same order."""

    id: list[int]
    version: list[int]
    outcome: list[int]
    started: list[datetime | None]
    finished: list[datetime | None]
    result: list[str | None]
    error: list[str]
    exception: list[str | None]
    keeps_data: list[KeepsData]
    stood_for: list[datetime | None]

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


class Known(NamedTuple):
    """The columns of a claimed task that the history repeats, for a run that knows them."""

    biz_code: str
    biz_num: str
    attempts: int
    executor: int
    when: datetime
    biz_ext: str | None

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


_SENT = (
    Column("id", "int"),
    Column("version", "int"),
    Column("outcome", "int"),
    Column("started", "moment"),
    Column("finished", "moment"),
    Column("result", "text"),
    Column("error", "text"),
    Column("exception", "text"),
    Column("keeps_data", "int"),
    Column("stood_for", "moment"),
)


def record(cursor: CursorWrapper, dialect: Dialect, ends: Ends) -> None:
    """Write a history row for each end; the server adds the task's columns.

    The caller's transaction is rolled back if one of the claims is not held.
    """
    sent = dialect.by_column(_SENT, ends)
    of = sent.column
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS})"
        f" SELECT {OF_TASK}, COALESCE({of['stood_for']}, t.when_time), {of['outcome']}, {of['started']},"
        f" COALESCE({of['finished']}, {dialect.now}), {dialect.json(of['result'])}, {of['error']}, {of['exception']},"
        f" CASE {of['keeps_data']} WHEN {KeepsData.ALL:d} THEN t.biz_ext WHEN {KeepsData.SMALL:d} THEN"
        f" CASE WHEN {dialect.size('t.biz_ext')} <= {SMALL} THEN t.biz_ext END END"
        f" FROM {sent.source} {dialect.look_up(TASK, _same_claim(of))}",
        sent.parameters,
    )


def _same_claim(of: dict[str, str]) -> str:
    """Return the fence for a task row that is looked up for a sent row."""
    return f"t.id = {of['id']} AND t.version = {of['version']}"


def record_known(cursor: CursorWrapper, dialect: Dialect, task: Known, end: End) -> None:
    """Write the history row of a run whose task is not to be read again."""
    when = end.stood_for or task.when
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {dialect.json('%s')}, %s,"
        f" %s, {dialect.json('%s')})",
        [
            end.id, end.version, task.biz_code, task.biz_num, task.attempts, task.executor, dialect.stored(when),
            end.outcome, end.started and dialect.stored(end.started), end.finished and dialect.stored(end.finished),
            end.result, end.error, end.exception, _kept(task.biz_ext, end.keeps_data),
        ],
    )  # fmt: skip


def _kept(data: str | None, keeps: KeepsData) -> str | None:
    is_kept = keeps is KeepsData.ALL or (keeps is KeepsData.SMALL and len((data or "").encode()) <= SMALL)
    return data if is_kept else None


def record_without_run(
    cursor: CursorWrapper,
    condition: str,
    outcome: RunOutcome,
    now: str,
    parameters: Sequence[Any] = (),
    error: str = "",
) -> int:
    """Write a history row for each task under ``condition`` that ends without a run; return their number.

    The row keeps the task's data: no run has read them.
    """
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) SELECT {OF_TASK}, t.when_time, {int(outcome)}, NULL, {now}, NULL, %s, NULL,"
        " t.biz_ext"
        f" FROM {TASK} t WHERE {condition}",
        [error, *parameters],
    )
    return int(cursor.rowcount)


def oldest(alias: str, first: int = 100) -> datetime | None:
    """Return when the oldest run in the history ended, of its ``first`` rows by primary key; None if there is none."""
    runs: Any = TaskRun.objects.using(alias).order_by("id")
    return min(runs.values_list("finished", flat=True)[:first], default=None)


@dataclass(frozen=True)
class AllBut:
    """All codes but these."""

    codes: frozenset[str]

    def __contains__(self, code: object) -> bool:
        return code not in self.codes


class Purged(NamedTuple):
    """What one call of :func:`purge` did: the number of rows ``deleted``, and the id after which the next continues."""

    deleted: int
    position: int
    is_complete: bool
    """Whether all rows that are old enough have been read."""


def purge(alias: str, older_than: timedelta, codes: Container[str], after: int = 0, batch_size: int = 1000) -> Purged:
    """Read at most ``batch_size`` rows with ids above ``after``; delete those of the ``codes`` that are old enough.

    Rows are written as runs end, so the primary key nearly follows their age: no index on a time is needed, and rows
    of other codes are read once, when the position passes them. It also passes rows that are ahead of their time, as
    after the clock was wrong: it is for the caller to begin again some time, at 0.
    """
    rows = _portion(alias, older_than, after, batch_size)
    old = [row.id for row in rows if row.is_old and row.biz_code in codes]
    if old:
        atomically(alias, lambda cursor: _delete(cursor, old))
    passed = _passed(alias, older_than, rows, batch_size)
    position = passed[-1].id if passed else after
    if not rows and in_one_statement(alias, _newest) < after:
        position = 0  # after TRUNCATE, or from a backup, ids begin again
    return Purged(len(old), position, is_complete=len(passed) < batch_size)


def count_old(alias: str, older_than: timedelta, codes: Container[str], batch_size: int = 1000) -> int:
    """Return how many rows calls of :func:`purge` would delete, one for each portion of the history."""
    count = after = 0
    while rows := _portion(alias, older_than, after, batch_size):
        count += sum(row.is_old and row.biz_code in codes for row in rows)
        passed = _passed(alias, older_than, rows, batch_size)
        if len(passed) < batch_size:
            break
        after = passed[-1].id
    return count


class _Row(NamedTuple):
    id: int
    biz_code: str
    is_old: bool


def _passed(alias: str, older_than: timedelta, rows: list[_Row], batch_size: int) -> list[_Row]:
    """Return the rows of a portion that the position passes: those before the first young one.

    If older rows follow the portion, the young ones in it are ahead of their time, and all are passed.
    """
    passed = list(takewhile(lambda row: row.is_old, rows))
    if len(passed) < len(rows) == batch_size and (rows[-1].is_old or _old_follow(alias, older_than, rows)):
        return rows
    return passed


def _old_follow(alias: str, older_than: timedelta, rows: list[_Row]) -> bool:
    """Return whether a row far behind the portion is old: of one for each power of two times its length."""
    newest = in_one_statement(alias, _newest)
    distances = (len(rows) << power for power in range(64))
    probes = [rows[-1].id + distance for distance in takewhile(lambda each: rows[-1].id + each <= newest, distances)]
    if not probes:
        return False
    cutoff = dialect_of(connections[alias]).later(-older_than)
    ids = in_one_statement(alias, lambda cursor: _next_to(cursor, probes))
    return in_one_statement(alias, lambda cursor: _any_old(cursor, cutoff, ids))


def _next_to(cursor: CursorWrapper, probes: Sequence[int]) -> list[int]:
    cursor.execute(" UNION ALL ".join(f"SELECT MIN(id) FROM {RUN} WHERE id >= {probe:d}" for probe in probes))
    return [pk for (pk,) in cursor.fetchall() if pk is not None]


def _any_old(cursor: CursorWrapper, cutoff: str, ids: Sequence[int]) -> bool:
    among = ", ".join(map(str, ids)) or "NULL"
    cursor.execute(f"SELECT MAX(CASE WHEN finished < {cutoff} THEN 1 ELSE 0 END) FROM {RUN} WHERE id IN ({among})")
    return bool(cursor.fetchone()[0])


def _portion(alias: str, older_than: timedelta, after: int, most: int) -> list[_Row]:
    cutoff = dialect_of(connections[alias]).later(-older_than)
    return in_one_statement(alias, lambda cursor: _read(cursor, cutoff, after, most))


def _read(cursor: CursorWrapper, cutoff: str, after: int, most: int) -> list[_Row]:
    cursor.execute(
        f"SELECT id, biz_code, CASE WHEN finished < {cutoff} THEN 1 ELSE 0 END FROM {RUN}"
        f" WHERE id > {after:d} ORDER BY id LIMIT {most:d}"
    )
    return [_Row(pk, biz_code, bool(is_old)) for pk, biz_code, is_old in cursor.fetchall()]


def _newest(cursor: CursorWrapper) -> int:
    cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM {RUN}")
    return int(cursor.fetchone()[0])


def _delete(cursor: CursorWrapper, ids: Sequence[int]) -> None:
    cursor.execute(f"DELETE FROM {RUN} WHERE id IN ({', '.join(map(str, ids))})")

"""The history: its rows are written in the transaction that ends the run."""

from datetime import datetime
from enum import IntEnum
from typing import Any, Final, NamedTuple

from django.db.backends.utils import CursorWrapper
from django.db.models import Q

from django_delayed_tasks.exceptions import CutOff
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql.dialects import Column, Dialect
from django_delayed_tasks.store.sql.tables import RUN, TASK

COLUMNS = (
    "task_id, version, biz_code, biz_num, attempt, executor, when_time, outcome, started, finished, result, error,"
    " exception, biz_ext"
)
OF_TASK = "t.id, t.version, t.biz_code, t.biz_num, t.attempts, NULLIF(t.executor, 0)"
"""The expressions for the columns before ``when_time``, read from a task row ``t``."""


CUT_OFF: Final = f"{CutOff.__module__}.{CutOff.__qualname__}"
IS_CUT_OFF: Final = Q(outcome=RunOutcome.LOST, exception=CUT_OFF)
"""Selects the runs that were cut off: they are neither attempts nor rescues."""
SMALL: Final = 1024
"""The most bytes of data that the history keeps of every run that failed."""


class KeepsData(IntEnum):
    """Which data of a task the history keeps."""

    NONE = 0
    SMALL = 1
    ALL = 2


class End(NamedTuple):
    """The end of a run as the history has it; ``result`` is JSON text.

    ``exception`` is the path of the class of the exception that ended the run. ``stood_for``: the time that the run of
    a recurring task was for, if it is not the row's.
    """

    id: int
    version: int
    executor: int | None
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
    executor: list[int | None]
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


class KnownColumns(NamedTuple):
    """The columns of a claimed task that the history repeats, for a run that knows them."""

    biz_code: str
    biz_num: str
    attempts: int
    when: datetime
    biz_ext: str | None

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


_SENT = (
    Column("id", "int"),
    Column("version", "int"),
    Column("executor", "int"),
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
        f" FROM {sent.source} {dialect.look_up(TASK, _same_claim(dialect, of))}",
        sent.parameters,
    )


def _same_claim(dialect: Dialect, of: dict[str, str]) -> str:
    """Return the fence for a task row that is looked up for a sent row."""
    same_executor = dialect.same("t.executor", of["executor"])
    return f"t.id = {of['id']} AND t.version = {of['version']} AND {same_executor}"


def record_known(cursor: CursorWrapper, dialect: Dialect, task: KnownColumns, end: End) -> None:
    """Write the history row of a run whose task is not to be read again."""
    when = end.stood_for or task.when
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {dialect.json('%s')}, %s,"
        f" %s, {dialect.json('%s')})",
        [
            end.id, end.version, task.biz_code, task.biz_num, task.attempts, end.executor, dialect.stored(when),
            end.outcome, end.started and dialect.stored(end.started), end.finished and dialect.stored(end.finished),
            end.result, end.error, end.exception, _kept(task.biz_ext, end.keeps_data),
        ],
    )  # fmt: skip


def _kept(data: str | None, keeps: KeepsData) -> str | None:
    is_kept = keeps is KeepsData.ALL or (keeps is KeepsData.SMALL and len((data or "").encode()) <= SMALL)
    return data if is_kept else None


def record_without_run(cursor: CursorWrapper, condition: str, outcome: RunOutcome, now: str, error: str = "") -> None:
    """Write a history row for each task under ``condition`` that ends without a run.

    The row keeps the task's data: no run has read it.
    """
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) SELECT {OF_TASK}, t.when_time, {int(outcome)}, NULL, {now}, NULL, %s, NULL,"
        " t.biz_ext"
        f" FROM {TASK} t WHERE {condition}",
        [error],
    )


def oldest(alias: str, first: int = 100) -> datetime | None:
    """Return when the oldest run in the history ended, of its ``first`` rows by primary key; None if there is none."""
    runs: Any = TaskRun.objects.using(alias).order_by("id")
    return min(runs.values_list("finished", flat=True)[:first], default=None)

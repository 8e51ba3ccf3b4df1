"""Reads what the invariants are about: plain SQL, on a connection of its own, all tables as of one moment."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.dialects.base import Dialect
from harness.torture.texts import unescaped

_BEGIN = {
    "mysql": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ",),
    "sqlite": ("BEGIN DEFERRED",),
}
PREFIX = "django_delayed_tasks_"


class Call(NamedTuple):
    """A row of Accepted."""

    id: int
    sequence: int
    after: int
    verb: str
    mode: str
    code: str
    num: str
    result: str
    task_id: int | None
    version: int | None
    when: datetime | None
    nonce: int | None
    at: datetime


class Seen(NamedTuple):
    """A row of Effect."""

    kind: str
    task_id: int
    version: int
    code: str
    num: str
    text: str
    when: datetime
    nonce: int
    executor: int
    process: int
    held: bool
    at: datetime


class Run(NamedTuple):
    """A row of TaskRun."""

    id: int
    task_id: int
    version: int
    code: str
    num: str
    when: datetime
    outcome: int
    started: datetime | None
    finished: datetime
    executor: int | None
    result: Any
    error: str
    exception: str | None = None


class Row(NamedTuple):
    """A row of Task; ``owner_alive`` tells whether the executor that has claimed it is alive."""

    task_id: int
    code: str
    num: str
    status: int
    version: int
    when: datetime
    claim_at: datetime
    nonce: int | None
    executor: int | None
    owner_alive: bool
    error: str
    text: str


@dataclass(frozen=True)
class Ledger:
    """All of it, as of one moment."""

    calls: list[Call]
    seen: list[Seen]
    runs: list[Run]
    rows: list[Row]
    processes: dict[int, int]
    """Executor id: process."""


def read() -> Ledger:
    """The ledger as it is now.

    Raises:
        DatabaseError: the database does not answer.
    """
    with _snapshot() as (cursor, dialect):
        return Ledger(
            [Call(*_unescaped(_moments(row, dialect, 10, 12), 5, 6)) for row in _rows(cursor, _CALLS)],
            [Seen(*_unescaped(_moments(row, dialect, 6, 11), 3, 4, 5)) for row in _rows(cursor, _SEEN)],
            [_ended(_moments(row, dialect, 5, 7, 8)) for row in _rows(cursor, _RUNS)],
            [_live(_moments(row, dialect, 5, 6)) for row in _rows(cursor, _LIVE)],
            dict(_rows(cursor, f"SELECT id, pid FROM {PREFIX}executor")),
        )


_CALLS = (
    "SELECT id, sequence, after, verb, mode, biz_code, biz_num, result, task_id, version, when_time, nonce, at"
    " FROM torture_accepted ORDER BY id"
)
_SEEN = (
    "SELECT kind, task_id, version, biz_code, biz_num, text, when_time, nonce, executor, process, held, at"
    " FROM torture_effect ORDER BY id"
)
_RUNS = (
    "SELECT id, task_id, version, biz_code, biz_num, when_time, outcome, started, finished, executor, result, error,"
    f" exception FROM {PREFIX}taskrun ORDER BY id"
)
_LIVE = (
    "SELECT t.id, t.biz_code, t.biz_num, t.status, t.version, t.when_time, t.claim_at, t.biz_ext, t.executor,"
    f" e.id, t.last_error FROM {PREFIX}task t LEFT JOIN {PREFIX}executor e ON e.id = t.executor AND e.alive = TRUE"
    " ORDER BY t.id"
)


def _rows(cursor: CursorWrapper, sql: str) -> list[tuple[Any, ...]]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def _moments(row: tuple[Any, ...], dialect: Dialect, *columns: int) -> list[Any]:
    values = list(row)
    for column in columns:
        if values[column] is not None:
            values[column] = dialect.to_datetime(values[column])
    return values


def _unescaped(values: list[Any], *columns: int) -> list[Any]:
    for column in columns:
        values[column] = unescaped(values[column])
    return values


def _ended(values: list[Any]) -> Run:
    values[10] = _json(values[10])
    return Run(*values)


def _live(values: list[Any]) -> Row:
    data = _json(values[7]) or {}
    values[7] = data.get("nonce")
    values.append(data.get("text", ""))
    values[9] = values[9] is not None
    return Row(*values)


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str | bytes) else value


@contextmanager
def _snapshot() -> Iterator[tuple[CursorWrapper, Dialect]]:
    connection: BaseDatabaseWrapper = connections.create_connection("default")
    try:
        with connection.cursor() as cursor:
            for statement in _BEGIN[connection.vendor]:
                cursor.execute(statement)
            yield cursor, dialect_of(connection)
            cursor.execute("ROLLBACK")
    finally:
        connection.close()


class Standing(NamedTuple):
    """How far along the work is: cheap to ask. ``waiting`` are pending for the next minute."""

    waiting: int = -1
    running: int = -1
    failed: int = -1
    runs: int = -1
    calls: int = -1

    @property
    def is_drained(self) -> bool:
        return self.waiting == 0 and self.running == 0


def standing() -> Standing:
    """Return how many rows are in each state, and how many runs have been recorded."""
    connection = connections["default"]
    soon = dialect_of(connection).later(timedelta(seconds=60))
    task = f"SELECT COUNT(*) FROM {PREFIX}task WHERE status ="
    counts = (
        f"{task} 0 AND claim_at <= {soon}", f"{task} 1", f"{task} 2",
        f"SELECT COUNT(*) FROM {PREFIX}taskrun", "SELECT COUNT(*) FROM torture_accepted",
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(f'({count})' for count in counts)}")
        return Standing(*cursor.fetchone())


def stuck(most: int = 5) -> str:
    """Return a text about what has not ended."""
    rows = [row for row in read().rows if row.status != 2]
    words = [
        f"{row.code} {row.num} (task {row.task_id}, version {row.version}, status {row.status}, executor {row.executor}"
        f"{'' if row.owner_alive or row.status != 1 else ', which is dead'}, claimable from {row.claim_at:%H:%M:%S.%f})"
        for row in rows[:most]
    ]
    return "; ".join(words) + (f" and {len(rows) - most} more" if len(rows) > most else "")

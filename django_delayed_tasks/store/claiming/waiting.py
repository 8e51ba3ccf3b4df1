"""The tasks that wait, found and counted by index lookups whose cost does not depend on their number.

Everything outside of executors that reads the claim index does it here: pages, statistics, checks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.models import QuerySet

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.agenda import Agenda, Level, blocked_levels
from django_delayed_tasks.store.claiming.agenda import read_agenda as agenda_of
from django_delayed_tasks.store.sql.dialects import CLAIM_INDEX, Dialect, dialect_of
from django_delayed_tasks.store.sql.lanes import BLOCKED, code_of
from django_delayed_tasks.store.sql.portions import MAX_PARTS, portions
from django_delayed_tasks.store.sql.tables import PENDING, TASK
from django_delayed_tasks.store.sql.transactions import read_rows

COUNTED: Final = 1000
"""The bound up to which rows are counted, and the number of tasks that become due next and are read one by one."""
MAX_LEVELS: Final = 200
"""The most levels whose tasks are counted or read, and the most paused queues that are examined."""


def read_agenda(alias: str) -> Agenda:
    """Return every level with pending tasks, including those of paused queues, which executors skip.

    Blocked tasks, which are due, are in levels with the lane ``BLOCKED``, which stands for all lanes of keys.
    """
    agenda, blocked = agenda_of(alias), blocked_levels(alias)
    first: dict[tuple[str, int], datetime] = {}
    for level in blocked:
        first[level[:2]] = min(level.earliest, first.get(level[:2], level.earliest))
    levels = [Level(*level, earliest, BLOCKED) for level, earliest in sorted(first.items())]
    found = (*agenda.levels, *agenda.lanes, *agenda.asleep, *levels)
    return Agenda(agenda.now, found, blocked=tuple(blocked))


def pending_lanes(alias: str) -> set[str]:
    """Return the lanes of all pending tasks."""
    agenda = agenda_of(alias)
    return {level.lane for level in (*agenda.levels, *agenda.lanes, *agenda.asleep, *blocked_levels(alias))}


def count_due(alias: str, agenda: Agenda) -> dict[Level, int]:
    """Return how many tasks of each level are due, exact up to ``COUNTED``, of at most ``MAX_LEVELS`` levels."""
    due = [level for level in agenda.levels if level.earliest <= agenda.now][:MAX_LEVELS]
    counts: list[int] = []
    for some in portions(due, MAX_PARTS):
        counts += _counts(alias, some, agenda.now)
    return dict(zip(due, counts, strict=True))


def count_blocked(alias: str) -> Counter[tuple[str, str]]:
    """Return how many tasks are blocked, by (queue, code); all together are exact up to ``COUNTED``, as a status is."""
    table = dialect_of(connections[alias]).by_index(TASK, "ddt_task_claim")
    sql = (
        f"SELECT queue, lane FROM {table} WHERE status = {PENDING} AND lane >= '{BLOCKED}'"
        f" ORDER BY {', '.join(CLAIM_INDEX[1:])} LIMIT {COUNTED + 1:d}"
    )
    return Counter((queue, code_of(lane)) for queue, lane in read_rows(alias, sql))


def _counts(alias: str, levels: Iterable[Level], until: datetime) -> list[int]:
    dialect = dialect_of(connections[alias])
    statement = " UNION ALL ".join(_count(dialect, number, level, until) for number, level in enumerate(levels))
    parameters = [value for level in levels for value in (level.lane, level.queue, level.priority)]
    return [count for _, count in read_rows(alias, f"{statement} ORDER BY 1", parameters)]


def _count(dialect: Dialect, number: int, level: Level, until: datetime) -> str:
    condition = f"status = {PENDING} AND {_level_rows(level)} AND claim_at <= {dialect.moment_literal(until)}"
    return (
        f"SELECT {number:d} AS number, COUNT(*) FROM"
        f" (SELECT 1 AS one FROM {TASK} WHERE {condition} LIMIT {COUNTED + 1:d}) due{number:d}"
    )


def _level_rows(level: Level) -> str:
    """Return the condition for the rows of a level, whose parameters are its lane, queue and priority."""
    return f"lane {'>=' if level.lane == BLOCKED else '='} %s AND queue = %s AND priority = %s"


class Waiting(NamedTuple):
    """One pending task."""

    claim_at: datetime
    when: datetime
    update_time: datetime
    queue: str
    biz_code: str
    rescues: int
    trigger_text: str | None
    lane: str


class Next(NamedTuple):
    """The tasks that can be claimed next, in order: all that are due before ``until``, or simply all if it is None."""

    tasks: list[Waiting]
    until: datetime | None


def read_next(alias: str, agenda: Agenda, most: int) -> Next:
    """Return about ``most`` of the tasks that become due next, the same number of each level.

    Blocked tasks are not among them: these are due already.
    """
    levels = [level for level in agenda.levels if level.lane != BLOCKED]
    if not levels:
        return Next([], None)
    dialect = dialect_of(connections[alias])
    after = f"claim_at > {dialect.moment_literal(agenda.now)}"
    each = max(10, most // min(len(levels), MAX_LEVELS))
    tasks: list[Waiting] = []
    ends = [max(level.earliest, agenda.now) for level in levels[MAX_LEVELS:]]
    for found in _first_of(alias, levels[:MAX_LEVELS], each, after):
        tasks += found
        if len(found) == each:
            ends.append(found[-1].claim_at)
    return Next(sorted(tasks, key=lambda task: task.claim_at), min(ends, default=None))


def read_first(alias: str, agenda: Agenda, most: int) -> list[Waiting]:
    """Return the first ``most`` tasks of each level with due tasks, of at most ``MAX_LEVELS`` levels."""
    return [task for tasks in read_first_of_levels(alias, agenda, most).values() for task in tasks]


def read_first_of_levels(alias: str, agenda: Agenda, most: int) -> dict[Level, list[Waiting]]:
    """Return the tasks of :func:`read_first` by their levels."""
    due = f"claim_at <= {dialect_of(connections[alias]).moment_literal(agenda.now)}"
    levels = [level for level in agenda.levels if level.earliest <= agenda.now][:MAX_LEVELS]
    return dict(zip(levels, _first_of(alias, levels, most, due), strict=True))


def _first_of(alias: str, levels: Sequence[Level], most: int, only: str) -> Iterator[list[Waiting]]:
    """Yield the first tasks under a condition, in order, of each level; many levels are read by one statement."""
    for some in portions(levels, MAX_PARTS):
        found: list[list[Waiting]] = [[] for _ in some]
        for number, task in _read_first(alias, some, most, only):
            found[number].append(task)
        yield from (sorted(tasks, key=lambda task: task.claim_at) for tasks in found)


def _read_first(alias: str, levels: Sequence[Level], most: int, only: str) -> list[tuple[int, Waiting]]:
    dialect = dialect_of(connections[alias])
    read = dialect.to_datetime
    statements, parameters = [], []
    for number, level in enumerate(levels):
        rows, values = _ordered(dialect, level, only)
        columns = "claim_at, when_time, update_time, queue, biz_code, rescues, trigger_text, lane"
        statements.append(f"SELECT {number:d} AS number, {columns} FROM {rows} LIMIT {most:d}")
        parameters += values
    return [
        (number, Waiting(read(claim_at), read(when), read(updated), *rest))
        for number, claim_at, when, updated, *rest in read_rows(alias, dialect.union(statements), parameters)
    ]


def _ordered(dialect: Dialect, level: Level, only: str) -> tuple[str, list[Any]]:
    """Return the rows of a level under a condition, first claimable first; blocked ones in the order of the index."""
    if level.lane == BLOCKED:
        return f"{TASK} WHERE status = {PENDING} AND {_level_rows(level)} AND {only}", [
            level.lane, level.queue, level.priority,
        ]  # fmt: skip
    table, condition, values, order = dialect.rows_of(level.queue, level.priority, level.lane)
    return f"{table} WHERE {condition} AND {only} ORDER BY {', '.join(order)}", values


def running_tasks(alias: str) -> "QuerySet[Task]":
    """Return the running tasks, in the order of the claim index: without it, SQLite and PostgreSQL may read the table.

    Most tasks wait, so that statistics may say that the status tells nothing.
    """
    rows = Task.objects.using(alias).filter(status=TaskStatus.RUNNING)
    return rows.order_by(*CLAIM_INDEX[1:])


def count_status(alias: str, status: TaskStatus) -> int:
    """Return how many tasks have this status, exact up to ``COUNTED``; one more than that if there are more."""
    some = f"SELECT 1 AS one FROM {TASK} WHERE status = {int(status)} LIMIT {COUNTED + 1:d}"
    ((count,),) = read_rows(alias, f"SELECT COUNT(*) FROM ({some}) counted")
    return int(count)


def count_pending(alias: str) -> dict[str, int]:
    """Return how many tasks of each queue are pending; all together are exact up to ``COUNTED``, as a status is."""
    some = f"SELECT queue FROM {TASK} WHERE status = {PENDING} LIMIT {COUNTED + 1:d}"
    counts = read_rows(alias, f"SELECT queue, COUNT(*) FROM ({some}) counted GROUP BY queue")
    return {queue: int(count) for queue, count in counts}

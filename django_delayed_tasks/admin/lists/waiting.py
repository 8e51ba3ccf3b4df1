"""The tasks that wait in each queue, found and counted by index lookups whose cost does not depend on their number."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.admin.lists.changelist import COUNTED
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import PausedQueue, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.claiming.agenda import read_agenda as agenda_of
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import PENDING, TASK
from django_delayed_tasks.store.sql.transactions import in_one_statement

MOST_PAUSED: Final = 100
"""The most paused queues that are examined."""
MOST_LEVELS: Final = 200
"""The most levels whose due tasks are counted."""
_ONE_STATEMENT: Final = 50


def read_agenda() -> Agenda:
    """Return every level with pending tasks, including those of paused queues, which executors skip."""
    agenda = agenda_of(settings.DATABASE)
    paused = PausedQueue.objects.using(settings.DATABASE).order_by("queue").values_list("queue", flat=True)
    levels = (level for queue in paused[:MOST_PAUSED] for level in _levels_of(queue))
    return Agenda(agenda.now, (*agenda.levels, *levels))


def _levels_of(queue: str) -> Iterator[Level]:
    tasks: Any = Task.objects.using(settings.DATABASE).filter(status=TaskStatus.PENDING, queue=queue)
    first = tasks.order_by("priority", "claim_at").values_list("priority", "claim_at")
    level = first.first()
    while level:
        yield Level(queue, *level)
        level = first.filter(priority__gt=level[0]).first()


def count_due(agenda: Agenda) -> dict[str, int]:
    """Return how many tasks of each queue are due, exact up to ``COUNTED``, for at most ``MOST_LEVELS`` levels."""
    counts: defaultdict[str, int] = defaultdict(int)
    due = [level for level in agenda.levels if level.earliest <= agenda.now][:MOST_LEVELS]
    for start in range(0, len(due), _ONE_STATEMENT):
        some = due[start : start + _ONE_STATEMENT]
        for level, count in zip(some, _counts(some, agenda.now), strict=True):
            counts[level.queue] += count
    return dict(counts)


def _counts(levels: Iterable[Level], now: datetime) -> list[int]:
    alias = settings.DATABASE
    dialect = dialect_of(connections[alias])
    statement = " UNION ALL ".join(_count(dialect, number, now) for number, _ in enumerate(levels))
    parameters = [value for level in levels for value in (level.queue, level.priority)]

    def read(cursor: CursorWrapper) -> list[int]:
        cursor.execute(f"{statement} ORDER BY 1", parameters)
        return [count for _, count in cursor.fetchall()]

    return in_one_statement(alias, read)


def _count(dialect: Dialect, number: int, now: datetime) -> str:
    condition = f"status = {PENDING} AND queue = %s AND priority = %s AND claim_at <= {dialect.moment_literal(now)}"
    return (
        f"SELECT {number:d} AS number, COUNT(*) FROM"
        f" (SELECT 1 AS one FROM {TASK} WHERE {condition} LIMIT {COUNTED + 1:d}) due{number:d}"
    )

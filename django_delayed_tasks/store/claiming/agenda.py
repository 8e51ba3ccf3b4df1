"""The agenda: which levels (lane, queue, priority) have pending tasks, and since when (docs/explanation/claiming.md).

It is read by a *full scan*, which finds every level: it reads a few index entries for each level and none of the
waiting tasks, but it also steps over each finished task that an old snapshot keeps the database from purging. Where
there are many of those, ``looks.py`` reads it in another way.

Which queues are paused is read together with it: nothing of these is claimed.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect, LevelKey, dialect_of
from django_delayed_tasks.store.sql.lanes import BLOCKED, is_limited
from django_delayed_tasks.store.sql.transactions import decisively, in_one_statement

FRESH: Final = 0.05
"""Seconds for which an agenda counts as current; after that, tasks of other levels may have become due.

Each agenda is claimed from at least once, however old it is: with very many levels, reading it takes longer than this.
A place from which nothing could be claimed holds up no other task for as long.
"""


class Level(NamedTuple):
    """Tasks of one lane, queue and priority, with the earliest moment at which one of them may be claimed."""

    queue: str
    priority: int
    earliest: datetime
    lane: str = ""

    @property
    def key(self) -> LevelKey:
        """The key that tells the level from all others."""
        return self.lane, self.queue, self.priority


@dataclass(frozen=True, slots=True)
class Agenda:
    """The levels in use, as they were read shortly before ``now`` by the database's clock.

    ``is_complete``: whether a full scan has read it, so that no level and no task is missing. ``lanes`` has the levels
    of limited codes, without their blocked tasks. ``paused`` are the queues of which nothing is claimed, and ``asleep``
    has their levels. ``blocked`` has the levels of blocked tasks, of each key; only pages and statistics read these.
    """

    now: datetime
    levels: tuple[Level, ...]
    is_complete: bool = True
    lanes: tuple[Level, ...] = ()
    paused: frozenset[str] = frozenset()
    asleep: tuple[Level, ...] = ()
    blocked: tuple[Level, ...] = ()

    def due(self, ahead: timedelta = timedelta()) -> list[Level]:
        """Return the levels that have tasks that are due, or will be within ``ahead``, in no particular order."""
        until = self.now + ahead
        return [level for level in self.levels if level.earliest <= until]


def read_agenda(alias: str) -> Agenda:
    """Return the agenda of all tasks, by a full scan."""
    return in_one_statement(alias, partial(full_scan, dialect=dialect_of(connections[alias])))


def blocked_levels(alias: str) -> list[Level]:
    """Return every level of every lane that has blocked tasks, those of paused queues too."""
    dialect = dialect_of(connections[alias])
    # On a cluster the node must have seen what others have blocked.
    return decisively(alias, lambda cursor: _read_levels(cursor, dialect, _BLOCKED)[:-1])


def full_scan(cursor: CursorWrapper, dialect: Dialect) -> Agenda:
    """Read the agenda by a full scan."""
    *levels, (paused, _, now, _) = _read_levels(cursor, dialect, _UNBLOCKED)
    return agenda_of(now, levels, paused, is_complete=True)


def agenda_of(now: datetime, levels: Iterable[Level], paused: str | None, is_complete: bool) -> Agenda:
    """Return an agenda of these levels; ``paused`` is the JSON text of the paused queues."""
    queues: frozenset[str] = frozenset(json.loads(paused)) if paused else frozenset()
    unlimited: list[Level] = []
    lanes: list[Level] = []
    asleep: list[Level] = []
    for level in levels:
        (asleep if level.queue in queues else lanes if is_limited(level.lane) else unlimited).append(level)
    return Agenda(now, tuple(unlimited), is_complete, tuple(lanes), queues, tuple(asleep))


_UNBLOCKED: Final = f"< '{BLOCKED}'"
"""The condition for the lanes of the agenda."""
_BLOCKED: Final = f">= '{BLOCKED}'"
"""The condition for the lanes of keys."""


def _read_levels(cursor: CursorWrapper, dialect: Dialect, lanes: str) -> list[Level]:
    return [
        Level(queue, priority, dialect.to_datetime(moment), lane)
        for lane, queue, priority, moment in dialect.read_levels(cursor, lanes)
    ]

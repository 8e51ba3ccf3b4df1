"""Looks: readings of the agenda that cost the same however many tasks have finished.

A full scan also steps over the index entries of finished tasks. A *look* at the known levels reads only ranges of the
claim index that hold none of them: those entries lie below the watermarks, and stay for as long as an old snapshot may
need them. SQLite has none, since it deletes in place.

InnoDB reads past the end of a range until it finds an entry that is not deleted. So on MariaDB and MySQL a look reads
neither levels that were empty nor the gaps between levels: the entries of finished tasks may come next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.agenda import Agenda, Level, agenda_of, read_agenda
from django_delayed_tasks.store.sql.dialects import Dialect, LevelKey, dialect_of
from django_delayed_tasks.store.sql.transactions import in_one_statement

MAX_KNOWN = 100
"""The number of levels up to which a look, with one probe for each level, is cheaper than a full scan."""


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """The levels that earlier agendas have shown.

    ``watermarks`` has, for each level in use, a moment before which nothing claimable is expected; ``idle`` are the
    levels that had no task at ``since``, which is a little before the agenda that showed it was read.
    """

    watermarks: dict[LevelKey, datetime]
    idle: frozenset[LevelKey]
    since: datetime


@dataclass(frozen=True, slots=True)
class _LookResult:
    """The result of a look.

    ``earliest`` has the earliest claimable moment of each known level that has tasks, ``strangers`` some of the levels
    of plain tasks that were not known, and ``paused`` the paused queues as JSON text.
    """

    now: datetime
    earliest: dict[LevelKey, datetime]
    strangers: set[LevelKey]
    paused: str | None


def look(alias: str, known: KnownLevels) -> Agenda:
    """Return the agenda as far as a look at the known levels shows it; by a full scan where that costs no more.

    A look does not find tasks below their level's watermark nor, on MariaDB and MySQL, levels that were not in use
    before.
    """
    dialect = dialect_of(connections[alias])
    levels = [*known.watermarks, *known.idle]
    if not dialect.has_looks or len(levels) > MAX_KNOWN or not any(lane == "" for lane, _, _ in levels):
        return read_agenda(alias)
    return in_one_statement(alias, partial(_look, dialect=dialect, known=known))


def _look(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> Agenda:
    while True:
        found = _looked(dialect.look(cursor, known.watermarks, known.idle, known.since), dialect)
        strangers = found.strangers - known.watermarks.keys()
        if not strangers:
            levels = [
                Level(queue, priority, moment, lane) for (lane, queue, priority), moment in found.earliest.items()
            ]
            return agenda_of(found.now, levels, found.paused, is_complete=False)
        known = replace(known, watermarks=known.watermarks | dict.fromkeys(strangers, clock.EPOCH))


def _looked(rows: Sequence[Sequence[Any]], dialect: Dialect) -> _LookResult:
    """Return the result that the rows of :meth:`Dialect.look` stand for."""
    *levels, (_, _, paused, _, now) = rows
    return _LookResult(
        dialect.to_datetime(now),
        {
            (lane, queue, priority): dialect.to_datetime(moment)
            for kind, lane, queue, priority, moment in levels
            if kind == 1
        },
        {(lane, queue, priority) for kind, lane, queue, priority, _ in levels if kind == 2},
        paused,
    )


def finds_other_levels(alias: str) -> bool:
    """Return whether a look also finds tasks of levels that had none when the agenda was last read."""
    return dialect_of(connections[alias]).looks_find_other_levels

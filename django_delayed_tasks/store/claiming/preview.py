"""The preview: which runs will be due until a moment, read through the claim index, a level at a time."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connections

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.store.claiming.agenda import Level, blocked_levels, read_agenda
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.transactions import read_rows
from django_delayed_tasks.triggers import next_time, parse_stored

COLUMNS = ("claim_at", "biz_code", "biz_num", "when_time", "attempts", "trigger_text")


class PlannedRun(NamedTuple):
    """A run that will be due.

    ``at`` is the moment from which it may be claimed, and ``when`` the time that it stands for. ``attempt`` counts from
    1. ``trigger`` is the text of the trigger, if the task recurs; ``is_later`` says whether this is a further time of a
    recurring task, after the one that its row waits for.
    """

    at: datetime
    biz_code: str
    biz_num: str
    when: datetime
    queue: str
    priority: int
    attempt: int = 1
    trigger: str | None = None
    is_later: bool = False


def planned_runs(alias: str, until: datetime, limit: int, biz_code: str | None = None) -> list[PlannedRun]:
    """Return the first ``limit`` runs that are due until then, the earliest first; of one code, if it is given.

    Of each level at most ``limit`` rows are read, and of at most ``limit`` levels; with a code, as many as it takes to
    find those of the code. Tasks in paused queues are left out.
    """
    agenda = read_agenda(alias)
    blocked = [level for level in blocked_levels(alias) if level.queue not in agenda.paused]
    levels = [level for level in (*agenda.levels, *agenda.lanes, *blocked) if level.earliest <= until]
    if biz_code is None:  # each has a task, so those of later levels would be beyond the limit
        levels = sorted(levels, key=attrgetter("earliest"))[:limit]
    rows = merge(*[_of_level(alias, level, until, limit, biz_code) for level in levels], key=_order)
    each = [_with_later(row, agenda.now, until) for row in islice(rows, limit)]
    return list(islice(merge(*each, key=_order), limit))


def _order(run: PlannedRun) -> tuple[datetime, int]:
    return run.at, -run.priority


def _of_level(alias: str, level: Level, until: datetime, limit: int, biz_code: str | None) -> list[PlannedRun]:
    dialect = dialect_of(connections[alias])
    table, condition, parameters, order = dialect.rows_of(level.queue, level.priority, level.lane)
    condition += f" AND claim_at <= {dialect.moment_literal(until)}"
    if biz_code is not None:
        condition, parameters = f"{condition} AND biz_code = %s", [*parameters, biz_code]
    sql = f"SELECT {', '.join(COLUMNS)} FROM {table} WHERE {condition} ORDER BY {', '.join(order)} LIMIT {limit:d}"
    return [_planned(row, level, dialect) for row in read_rows(alias, sql, parameters)]


def _planned(row: tuple[Any, ...], level: Level, dialect: Dialect) -> PlannedRun:
    at, code, num, when, attempts, trigger = row
    moments = dialect.to_datetime(at), dialect.to_datetime(when)
    return PlannedRun(moments[0], code, num, moments[1], level.queue, level.priority, attempts + 1, trigger)


def _with_later(run: PlannedRun, now: datetime, until: datetime) -> Iterator[PlannedRun]:
    """Yield the run and, if the task recurs, those for its further times."""
    yield run
    if run.trigger is None:
        return
    with suppress(InvalidTrigger, OverflowError):  # the text was written by other means; there is no next time
        trigger = parse_stored(run.trigger)
        is_extra = run.at < run.when  # as after *Run now*: its next time remains
        when = run.when if is_extra else next_time(trigger, run.when, max(run.at, now))
        while when is not None and when <= until:
            yield run._replace(at=when, when=when, attempt=1, is_later=True)
            when = next_time(trigger, when, max(when, now))

"""The survey: what all tasks are, read in portions by primary key, and kept as one row (docs/decisions/0023).

A portion is one range of the primary key, grouped by the server. A task that changes while the survey is under way may
be counted as it was, or not at all: the result is a picture of a few minutes, with the moment at which it was finished.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Overview
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import PENDING, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically, read_rows
from django_delayed_tasks.triggers import Trigger, parse_stored

NAME: Final = "survey"
"""The name of the row."""
BY_MINUTE: Final = timedelta(hours=25)
"""The time ahead for which due times are told apart by the minute; further ahead they are by the hour."""
BY_HOUR: Final = timedelta(days=32)
"""The time ahead of the last due times that are told apart: the forecast of a month."""
LATER: Final = -1
"""Stands for the minute of a task that is not pending, that is due later than ``BY_HOUR``, or that recurs."""


class Found(NamedTuple):
    """Tasks that are alike; ``minute`` counts from 1970 and is when they are due. Some of them may be ``recurring``."""

    status: int
    biz_code: str
    queue: str
    minute: int
    tasks: int
    recurring: int


class Recurring(NamedTuple):
    """Recurring tasks with one trigger, of one code; ``first`` is the earliest of their next times."""

    biz_code: str
    trigger_text: str
    first: datetime
    tasks: int


class Portion(NamedTuple):
    """The contents of one range of primary keys; ``last`` is the last key of it, None if the table ends before it."""

    last: int | None
    tasks: list[Found]
    recurring: list[Recurring]


@dataclass
class Survey:
    """The sum of the portions so far; times are minutes since 1970."""

    began: datetime
    position: int = 0
    tasks: int = 0
    statuses: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    queues: Counter[str] = field(default_factory=Counter)
    queues_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    due: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    recurring: dict[tuple[str, str], Recurring] = field(default_factory=dict)

    def add(self, portion: Portion) -> None:
        """Add what one more portion holds."""
        for found in portion.tasks:
            self.tasks += found.tasks
            self.statuses[found.status][found.biz_code] += found.tasks
            if found.status == PENDING:
                self.queues[found.queue] += found.tasks
                self.queues_of[found.biz_code].add(found.queue)
                self.due[found.biz_code][found.minute] += found.tasks
        for one in portion.recurring:
            key = one.biz_code, one.trigger_text
            known = self.recurring.get(key)
            self.recurring[key] = (
                one._replace(tasks=one.tasks + known.tasks, first=min(one.first, known.first)) if known else one
            )


def read_portion(alias: str, began: datetime, after: int, size: int) -> Portion:
    """Return the counts of the next ``size`` tasks with primary keys above ``after``."""
    ends = read_rows(alias, f"SELECT id FROM {TASK} WHERE id > {after:d} ORDER BY id LIMIT 1 OFFSET {size - 1:d}")
    last = int(ends[0][0]) if ends else None
    part = f"id > {after:d}" if last is None else f"id > {after:d} AND id <= {last:d}"
    tasks = _tasks(alias, began, part)
    return Portion(last, tasks, _recurring(alias, part) if any(found.recurring for found in tasks) else [])


def _tasks(alias: str, began: datetime, part: str) -> list[Found]:
    dialect = dialect_of(connections[alias])
    minutes = dialect.minutes("claim_at")
    minute = (
        f"CASE WHEN status <> {PENDING} OR trigger_text IS NOT NULL OR claim_at >= %s THEN {LATER}"
        f" WHEN claim_at < %s THEN {minutes} ELSE {minutes} - {dialect.remainder(minutes, 60)} END"
    )
    sql = (
        f"SELECT status, biz_code, queue, {minute} AS due_minute, COUNT(*), COUNT(trigger_text)"
        f" FROM {dialect.by_key(TASK)} WHERE {part} GROUP BY status, biz_code, queue, due_minute"
    )
    return [
        Found(status, code, queue, int(minute), int(tasks), int(recurring))
        for status, code, queue, minute, tasks, recurring in read_rows(
            alias, sql, [dialect.stored(began + BY_HOUR), dialect.stored(began + BY_MINUTE)]
        )
    ]


def _recurring(alias: str, part: str) -> list[Recurring]:
    dialect = dialect_of(connections[alias])
    sql = (
        f"SELECT biz_code, trigger_text, MIN(when_time), COUNT(*) FROM {dialect.by_key(TASK)}"
        f" WHERE {part} AND trigger_text IS NOT NULL AND status IN ({PENDING}, {RUNNING})"
        " GROUP BY biz_code, trigger_text"
    )
    rows = read_rows(alias, sql)
    return [Recurring(code, text, dialect.to_datetime(first), int(count)) for code, text, first, count in rows]


def write(alias: str, taken_at: datetime, data: Mapping[str, Any]) -> None:
    """Replace the row with what a survey has shown."""
    row = {"taken_at": taken_at, "data": data}

    def save(cursor: CursorWrapper) -> None:
        dialect_of(connections[alias]).begin_writing(cursor, TASK)
        Overview.objects.using(alias).update_or_create(name=NAME, defaults=row)

    atomically(alias, save)


def read(alias: str) -> Overview | None:
    """Return the result of the latest survey; None if there was none."""
    return Overview.objects.using(alias).filter(name=NAME).first()


def read_totals(alias: str) -> Mapping[TaskStatus, int]:
    """Return how many tasks had each status in the latest survey; empty if there was none."""
    # The database takes them out of the row, most of which is due times.
    totals: Any = Overview.objects.using(alias).filter(name=NAME).values_list("data__totals", flat=True).first()
    return {status: totals.get(str(status.value), 0) for status in TaskStatus} if isinstance(totals, dict) else {}


def minute_of(moment: datetime) -> int:
    """Return the number of whole minutes since 1970."""
    return int(moment.timestamp() // 60)


def moment_of(minute: int) -> datetime:
    """Return the moment at which a minute begins."""
    return datetime.fromtimestamp(minute * 60, UTC)


def summed(counts: Iterable[Counter[int]]) -> Counter[int]:
    """Return the sum of these counts."""
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return total


MAX_TRIGGERS: Final = 400
"""The most triggers that are projected, those of the most tasks."""
MIN_STEPS: Final = 50
"""Times of each trigger that are computed at least, so that its rate is known."""


def project(recurring: Collection[Recurring], now: datetime, steps: int = 20_000) -> dict[str, Counter[int]]:
    """Return when the recurring tasks of each code, whose rows show only the next time, are due, by minutes since 1970.

    About ``steps`` times are computed, the same number for each trigger. A trigger with more times than that before the
    end of the forecast is continued at its rate so far.
    """
    due: dict[str, Counter[int]] = defaultdict(Counter)
    chosen = sorted(recurring, key=lambda one: -one.tasks)[:MAX_TRIGGERS]
    each = max(MIN_STEPS, steps // max(1, len(chosen)))
    for one in chosen:
        with suppress(InvalidTrigger, OverflowError):
            if one.first > now:
                due[one.biz_code][minute_of(one.first)] += one.tasks
            for minute, count in _times(parse_stored(one.trigger_text), max(one.first, now), now, each):
                due[one.biz_code][minute] += round(count * one.tasks)
    return due


def _times(trigger: Trigger, after: datetime, now: datetime, most: int) -> Iterator[tuple[int, float]]:
    """Yield minutes, or hours further ahead, and how many times of the trigger lie in each."""
    end = now + BY_HOUR
    fine = minute_of(now + BY_MINUTE)
    moment = after
    count = 0
    for moment in islice(trigger.times(after), most):
        if moment > end:
            return
        count += 1
        minute = minute_of(moment)
        yield (minute if minute < fine else minute - minute % 60), 1
    if count == most:
        yield from _continued(
            minute_of(moment) + 1, count / max((moment - after) / timedelta(minutes=1), 1), fine, minute_of(end)
        )


def _continued(minute: int, rate: float, fine: int, end: int) -> Iterator[tuple[int, float]]:
    """Yield the minutes up to ``fine`` and the hours up to ``end``, at a rate per minute."""
    carried = 0.0
    while minute < end:
        step = 1 if minute < fine else 60
        carried += rate * step
        if carried >= 1:
            yield (minute if step == 1 else minute - minute % 60), int(carried)
            carried -= int(carried)
        minute += step

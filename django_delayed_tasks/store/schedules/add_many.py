"""Adding many tasks, up to a few thousand rows in one statement; and tasks, one or many, to be done only once."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, IfExists
from django_delayed_tasks.store.records.once import Identity, succeeded
from django_delayed_tasks.store.schedules import add
from django_delayed_tasks.store.schedules.add import COLUMNS, FRESH
from django_delayed_tasks.store.schedules.upsert import PREFERRING, upserted
from django_delayed_tasks.store.sql.dialects import Column, Dialect, dialect_of
from django_delayed_tasks.store.sql.portions import MAX_TEXT
from django_delayed_tasks.store.sql.tables import STOPPING, TASK
from django_delayed_tasks.store.sql.transactions import TRIES, atomically
from django_delayed_tasks.store.validation import Schedule, absolute

SENT = (
    Column("biz_code", "text"),
    Column("biz_num", "text"),
    Column("lane", "text"),
    Column("biz_ext", "text"),
    Column("queue", "text"),
    Column("priority", "int"),
    Column("trigger_text", "text"),
    Column("expires_at", "moment"),
    Column("once", "bool"),
    Column("trace", "text"),
    Column("when_time", "moment"),
    Column("claim_at", "moment"),
)


def add_many(alias: str, schedules: Iterable[Schedule], if_exists: IfExists, batch_size: int) -> int:
    """Add tasks in batches of ``batch_size``; return how many were created, replaced or deferred.

    If a batch has several schedules of one identity, the last one counts; with KEEP, the first one. Rows are written in
    the order of their identities, so that two such calls wait for each other instead of running into a deadlock. Each
    batch is a transaction of its own unless the caller has one open.

    Raises:
        TaskExists: with ``IfExists.RAISE``, when a task exists already; nothing of its batch is written.
    """
    return sum(_add_batch(alias, batch, if_exists) for batch in batches(schedules, batch_size))


def batches(schedules: Iterable[Schedule], size: int) -> Iterator[list[Schedule]]:
    """Yield the schedules in batches of ``size``, or fewer if they have much text."""
    batch: list[Schedule] = []
    text = 0
    for schedule in schedules:
        batch.append(schedule)
        text += len(schedule.biz_ext or "") + len(schedule.biz_num)
        if len(batch) == size or text > MAX_TEXT:
            yield batch
            batch, text = [], 0
    if batch:
        yield batch


def _add_batch(alias: str, batch: Sequence[Schedule], if_exists: IfExists) -> int:
    ordered = batch if if_exists is IfExists.REPLACE else batch[::-1]
    if if_exists in PREFERRING:
        chosen = sorted(batch, key=lambda schedule: schedule[:2])
        # One by one: MariaDB and MySQL have no upsert with a condition.
        return atomically(alias, lambda cursor: _add_each(alias, chosen, if_exists))
    unique = {schedule[:2]: schedule for schedule in ordered}
    if if_exists is IfExists.RAISE and len(unique) < len(batch):
        raise TaskExists(*_repeated(batch))
    chosen = [unique[identity] for identity in sorted(unique)]
    if if_exists is IfExists.RAISE:
        return _add_new(alias, chosen)
    write = _write if if_exists is IfExists.REPLACE else _write_around
    return atomically(alias, lambda cursor: write(cursor, dialect_of(connections[alias]), chosen, if_exists))


def _add_each(alias: str, chosen: Iterable[Schedule], if_exists: IfExists) -> int:
    results = [add.add(alias, schedule, if_exists) for schedule in chosen]
    return sum(result.action is not AddAction.KEPT for result in results)


def _repeated(batch: Sequence[Schedule]) -> tuple[str, str]:
    seen: set[tuple[str, str]] = set()
    for schedule in batch:
        if schedule[:2] in seen:
            return schedule[:2]
        seen.add(schedule[:2])
    raise AssertionError("no identity is repeated")


def _add_new(alias: str, chosen: Sequence[Schedule]) -> int:
    dialect = dialect_of(connections[alias])
    for attempt in range(TRIES):
        try:
            return atomically(alias, lambda cursor: _write_or_nothing(cursor, dialect, chosen))
        except IntegrityError:
            if found := atomically(alias, lambda cursor: _first_existing(cursor, dialect, chosen)):
                raise TaskExists(*found) from None
            # The existing task has ended since, or is not visible in the caller's snapshot.
            if attempt + 1 == TRIES:
                raise
    raise AssertionError("unreachable")


def _write_or_nothing(cursor: CursorWrapper, dialect: Dialect, chosen: Sequence[Schedule]) -> int:
    # In a savepoint, so that the caller's transaction survives the IntegrityError.
    with transaction.atomic(using=dialect.connection.alias):
        return _write_around(cursor, dialect, chosen, IfExists.RAISE)


def _first_existing(cursor: CursorWrapper, dialect: Dialect, chosen: Sequence[Schedule]) -> tuple[str, str] | None:
    return min(_existing(cursor, dialect, chosen, f"NOT {STOPPING}"), default=None)


def _existing(
    cursor: CursorWrapper, dialect: Dialect, chosen: Sequence[Schedule], condition: str
) -> set[tuple[str, str]]:
    """Return the identities among ``chosen`` whose existing task meets the condition."""
    sent = dialect.rows(SENT[:2], [schedule[:2] for schedule in chosen])
    same = f"{TASK}.biz_code = {sent.column['biz_code']} AND {TASK}.biz_num = {sent.column['biz_num']}"
    cursor.execute(
        f"SELECT {TASK}.biz_code, {TASK}.biz_num FROM {sent.source} {dialect.driving_join} {TASK} ON {same}"
        f" WHERE {condition}",
        sent.parameters,
    )
    return set(cursor.fetchall())


def _write_around(cursor: CursorWrapper, dialect: Dialect, chosen: Sequence[Schedule], if_exists: IfExists) -> int:
    """Write a batch without changing existing tasks; return the number of tasks written.

    Schedules whose task is STOPPING, which are few, are added one by one. If a task is cancelled after it was looked
    up here, this call counts as made before the cancellation.
    """
    stopping = _existing(cursor, dialect, chosen, STOPPING)
    deferred = [schedule for schedule in chosen if schedule[:2] in stopping]
    rest = [schedule for schedule in chosen if schedule[:2] not in stopping]
    written = _add_each(dialect.connection.alias, deferred, if_exists)
    return written + (_write(cursor, dialect, rest, if_exists) if rest else 0)


def _write(cursor: CursorWrapper, dialect: Dialect, chosen: Sequence[Schedule], if_exists: IfExists) -> int:
    now = dialect.read_now(cursor)
    sent = dialect.rows(SENT, [_sent(schedule, now) for schedule in chosen])
    of = sent.column
    moment = dialect.moment_literal(now)
    later = dialect.greatest(f"COALESCE({of['claim_at']}, {of['when_time']})", moment)
    values = (
        f"{of['biz_code']}, {of['biz_num']}, {of['lane']}, {dialect.json(of['biz_ext'])}, {of['queue']},"
        f" {of['priority']}, {of['trigger_text']}, {of['expires_at']}, {of['once']}, {of['trace']},"
        f" {of['when_time']}, {later},"
        f" {moment}, {moment}, {FRESH}"
    )
    # Without a WHERE, SQLite parses the ON of ON CONFLICT after a SELECT as a join condition.
    select = f"SELECT {values} FROM {sent.source} WHERE 1 = 1"
    insert, tail = dialect.bulk_insert(if_exists, upserted(dialect.new))
    cursor.execute(f"{insert} INTO {TASK} ({COLUMNS}) {select}{tail}", sent.parameters)
    return len(chosen) if if_exists is IfExists.REPLACE else cursor.rowcount


def _sent(schedule: Schedule, now: datetime) -> tuple[Any, ...]:
    return (
        schedule.biz_code, schedule.biz_num, schedule.lane, schedule.biz_ext, schedule.queue, schedule.priority,
        schedule.trigger_text, None if schedule.expires_at is None else absolute(schedule.expires_at, now),
        schedule.once, schedule.trace, absolute(schedule.when, now), schedule.claim_at,
    )  # fmt: skip


FILTERED = AddResult(None, AddAction.FILTERED)


class _Succeeded(Exception):
    """Tasks of these identities have been done already."""

    def __init__(self, identities: set[Identity]) -> None:
        super().__init__(identities)
        self.identities = identities


def add_once(alias: str, schedule: Schedule, if_exists: IfExists) -> AddResult:
    """Add as ``add.add`` does, unless this identity has been done: then return FILTERED and write nothing.

    The identity is looked up before the row is written, which usually decides it, and again when the row is written and
    locked, because a run of the same task may have been settled in between.

    Raises:
        TaskExists: with ``IfExists.RAISE``, when a task of this identity exists.
    """
    try:
        return atomically(alias, lambda cursor: _add_once(cursor, alias, schedule, if_exists))
    except _Succeeded:
        return FILTERED


def _add_once(cursor: CursorWrapper, alias: str, schedule: Schedule, if_exists: IfExists) -> AddResult:
    _refuse_succeeded(cursor, alias, [schedule])
    with transaction.atomic(using=alias):
        result = add.add(alias, schedule, if_exists)
        _refuse_succeeded(cursor, alias, [schedule])
    return result


def _refuse_succeeded(cursor: CursorWrapper, alias: str, schedules: Sequence[Schedule]) -> None:
    dialect = dialect_of(connections[alias])
    if found := succeeded(cursor, dialect, [schedule[:2] for schedule in schedules]):
        raise _Succeeded(found)


def add_many_once(alias: str, schedules: Sequence[Schedule], if_exists: IfExists, batch_size: int) -> int:
    """Add as :func:`add_many` does, leaving out what has been done; return how many were written."""
    written = 0
    for batch in batches(schedules, batch_size):
        written += atomically(alias, lambda cursor, batch=batch: _add_batch_once(cursor, alias, batch, if_exists))  # type: ignore[misc]
    return written


def _add_batch_once(cursor: CursorWrapper, alias: str, batch: list[Schedule], if_exists: IfExists) -> int:
    while batch:
        try:
            _refuse_succeeded(cursor, alias, batch)
            with transaction.atomic(using=alias):
                written = add_many(alias, batch, if_exists, len(batch))
                _refuse_succeeded(cursor, alias, batch)
            return written
        except _Succeeded as error:
            batch = [schedule for schedule in batch if schedule[:2] not in error.identities]
    return 0

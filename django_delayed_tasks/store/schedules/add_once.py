"""Adding tasks that are to be done only once: a task that has been done already is filtered, not added.

The identity is looked up before the row is written, which usually decides it, and again when the row is written and
locked, because a run of the same task may have been settled in between.
"""

from collections.abc import Sequence

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, IfExists
from django_delayed_tasks.store.records.once import Identity, succeeded
from django_delayed_tasks.store.schedules import add, add_many
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import atomically
from django_delayed_tasks.store.validation import Schedule

FILTERED = AddResult(None, AddAction.FILTERED)


class _Succeeded(Exception):
    """Tasks of these identities have been done already."""

    def __init__(self, identities: set[Identity]) -> None:
        super().__init__(identities)
        self.identities = identities


def add_once(alias: str, schedule: Schedule, if_exists: IfExists) -> AddResult:
    """Add as ``add.add`` does, unless this identity has been done: then return FILTERED and write nothing.

    Raises:
        TaskExists: with ``IfExists.RAISE``, when a task of this identity exists.
    """
    try:
        return atomically(alias, lambda cursor: _add(cursor, alias, schedule, if_exists))
    except _Succeeded:
        return FILTERED


def _add(cursor: CursorWrapper, alias: str, schedule: Schedule, if_exists: IfExists) -> AddResult:
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
    """Add as ``add_many.add_many`` does, leaving out what has been done; return how many were written."""
    written = 0
    for batch in add_many.batches(schedules, batch_size):
        written += atomically(alias, lambda cursor, batch=batch: _add_batch(cursor, alias, batch, if_exists))  # type: ignore[misc]
    return written


def _add_batch(cursor: CursorWrapper, alias: str, batch: list[Schedule], if_exists: IfExists) -> int:
    while batch:
        try:
            _refuse_succeeded(cursor, alias, batch)
            with transaction.atomic(using=alias):
                written = add_many.add_many(alias, batch, if_exists, len(batch))
                _refuse_succeeded(cursor, alias, batch)
            return written
        except _Succeeded as error:
            batch = [schedule for schedule in batch if schedule[:2] not in error.identities]
    return 0

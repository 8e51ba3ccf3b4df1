"""Reaping: claims of executors that are not alive end as LOST; their tasks are PENDING again, or FAILED.

The row of the executor says which: if it was stopped, its tasks are given back; if it crashed, or the row is gone, they
are rescued, and a task is FAILED after too many rescues. An executor may still claim a task after it was declared dead.
Such a claim is reaped as well: only the rows count, not the order of events.
"""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.states import ExecutorStatus, NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, load
from django_delayed_tasks.store.executors import End, declare_expired_dead, ends_of
from django_delayed_tasks.store.schedules import recurrence
from django_delayed_tasks.store.settling.settle import Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement, cut_off, stopped
from django_delayed_tasks.store.sql.dialects import CLAIM_INDEX, dialect_of
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.tables import EXECUTOR, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import read_rows
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.triggers import next_time, parse_stored

SPREAD = 5.0
"""The seconds over which rescued tasks are spread, for each earlier rescue."""


_RUN_AGAIN = (NextState.RESCUED, NextState.RELEASED)


class ReapedTask(NamedTuple):
    """A task that was reaped.

    Attributes:
        settlement: how its claim ended.
        then: what became of it.
        executor: the id of the executor that had it.
        given_up: the task as it was, if it is not run again.
        owner: the name of that executor; None if its row is gone.
    """

    settlement: Settlement
    then: NextState
    biz_code: str
    executor: int | None
    given_up: ClaimedTask | None
    owner: str | None = None

    @property
    def is_given_back(self) -> bool:
        """Whether its executor was stopped, so that its loss does not count."""
        return self.settlement.then is NextState.RELEASED


def reap(alias: str, max_rescues: int, limit: int = 500) -> dict[Claim, NextState]:
    """Declare executors dead whose lease has expired, then do as :func:`take_orphans`; return what became of claims."""
    declare_expired_dead(alias)
    return {taken.settlement.claim: taken.then for taken in take_orphans(alias, max_rescues, limit)}


def take_orphans(alias: str, max_rescues: int, limit: int = 500) -> list[ReapedTask]:
    """Reap up to ``limit`` orphaned tasks.

    A row that another transaction has locked is left to a later call: a caller's long transaction must not keep the
    other tasks waiting.
    """
    orphans = _orphans(alias, limit)
    if not orphans:
        return []
    now = recurrence.read_now(alias)
    ends = ends_of(alias, {orphan.executor for orphan in orphans})
    settlements = [_settlement(orphan, ends.get(orphan.executor), max_rescues, now) for orphan in orphans]
    # Before they are settled: one that recurs may be claimed for its next time at once.
    given_up = {claim: load(alias, claim) for claim, _, then, *_ in settlements if then not in _RUN_AGAIN}
    became = settle(alias, settlements, Wait.NOT_AT_ALL).became
    return [
        ReapedTask(
            settlement, then, orphan.biz_code, orphan.executor, given_up.get(settlement.claim), _name(ends, orphan)
        )
        for orphan, settlement in zip(orphans, settlements, strict=True)
        if (then := became.get(settlement.claim))
    ]


class _Orphan(NamedTuple):
    id: int
    version: int
    rescues: int
    trigger_text: str | None
    when_time: Any
    biz_code: str
    executor: int | None


# In the order of the claim index: otherwise PostgreSQL would read the table until it has found enough rows.
def _orphans(alias: str, limit: int) -> list[_Orphan]:
    sql = (
        f"SELECT {', '.join(f't.{column}' for column in _Orphan._fields)} FROM {TASK} t"
        f" LEFT JOIN {EXECUTOR} e ON e.id = t.executor AND e.alive = TRUE"
        f" WHERE t.status = {RUNNING} AND e.id IS NULL"
        f" ORDER BY {', '.join(f't.{column}' for column in CLAIM_INDEX[1:])} LIMIT {limit:d}"
    )
    dialect = dialect_of(connections[alias])
    return [_Orphan(*row)._replace(when_time=dialect.to_datetime(row[4])) for row in read_rows(alias, sql)]


def _name(ends: Mapping[int | None, End], orphan: _Orphan) -> str | None:
    return ends[orphan.executor].name if orphan.executor in ends else None


def _settlement(orphan: _Orphan, end: End | None, max_rescues: int, now: datetime) -> Settlement:
    if end and end.status == ExecutorStatus.STOPPED:
        return cut_off(Claim(orphan.id, orphan.version, orphan.executor), stopped(end.name))
    return _rescue(orphan, max_rescues, now)


def _rescue(orphan: _Orphan, max_rescues: int, now: datetime) -> Settlement:
    claim, rescues = Claim(orphan.id, orphan.version, orphan.executor), orphan.rescues
    if rescues >= max_rescues:
        error = f"its executor died {rescues + 1} {plural(rescues + 1, 'time')} while it ran; not rescued again"
        given_up = Settlement(claim, RunOutcome.LOST, NextState.FAILED, error=error)
        return given_up._replace(**_next_time(orphan, now))
    # One of the tasks that were claimed together may have killed the process. After the first time all of them run
    # again at once; later they are spread, so that it does not kill the same others until their rescues are used up.
    after = timedelta(seconds=random.uniform(0, SPREAD * rescues))
    return Settlement(
        claim, RunOutcome.LOST, NextState.RESCUED, after=after, error="its executor died or lost its lease"
    )


def _next_time(orphan: _Orphan, now: datetime) -> dict[str, Any]:
    """Return the settlement's fields for the next time of a recurring task; none if its trigger cannot be used."""
    if orphan.trigger_text is None:
        return {}
    try:
        trigger = parse_stored(orphan.trigger_text)
        is_extra = orphan.when_time > now  # an additional run, before the planned time
        return recurrence.recurrence(
            trigger, orphan.when_time if is_extra else next_time(trigger, orphan.when_time, now)
        )
    except (InvalidTrigger, OverflowError):
        return {}

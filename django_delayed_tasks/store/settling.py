"""Settling: the end of a run is written, with its history, in one transaction (DESIGN §3, the lower rows).

Most runs end with the task gone and nothing having happened to it meanwhile: these are recorded and deleted by two
statements for the whole batch. If the counts disagree, or something else follows, the rows are locked first and
looked at: a schedule that was deferred during the run wins, then a cancel request, then what the run came to.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.aftermath import aftermath
from django_delayed_tasks.store.dialects import Column, Dialect, dialect_of
from django_delayed_tasks.store.fences import Claim, fence, in_status
from django_delayed_tasks.store.history import COLUMNS, FROM_TASK
from django_delayed_tasks.store.tables import RUN, RUNNING, TASK
from django_delayed_tasks.store.transactions import atomically


class Settlement(NamedTuple):
    """How one claim ends: what the history says, and what becomes of the task.

    ``when`` is the new time of Then.AGAIN (a timedelta counts from the settlement), ``after`` the delay of RETRY,
    RESCUED and RELEASED, ``biz_ext`` JSON text, None or UNCHANGED, ``result`` JSON text; ``started`` and ``finished``
    are by the database's clock. ``keep`` tells whether the history gets a row.
    """

    claim: Claim
    outcome: RunOutcome
    then: Then
    started: datetime | None = None
    finished: datetime | None = None
    when: datetime | timedelta | None = None
    after: timedelta = timedelta()
    biz_ext: Any = UNCHANGED
    result: str | None = None
    error: str = ""
    keep: bool = True


class _Changed(Exception):
    """The counts disagree: something happened to a row of the batch."""


def settle(alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """Write the end of these runs; what became of each claim that was still held. The others write nothing.

    Then.AGAIN also stands for a deferred schedule that took effect, Then.GONE for a cancel request.

    Of two settlements of one claim the first counts. May be called again when it is unknown whether a COMMIT arrived:
    what is settled is not settled twice.
    """
    chosen = _first_of_each(settlements)
    if not chosen:
        return {}
    all_gone = all(settlement.then is Then.GONE for settlement in chosen)
    if all_gone and not connections[alias].in_atomic_block:
        try:
            return atomically(alias, lambda cursor: _settle_gone(cursor, alias, chosen))
        except _Changed:
            pass
    return atomically(alias, lambda cursor: settle_locked(cursor, alias, chosen))


def _first_of_each(settlements: Sequence[Settlement]) -> list[Settlement]:
    first: dict[Claim, Settlement] = {}
    for settlement in settlements:
        first.setdefault(settlement.claim, settlement)
    return list(first.values())


def _settle_gone(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    dialect = dialect_of(connections[alias])
    kept = [settlement for settlement in settlements if settlement.keep]
    claims = {settlement.claim for settlement in settlements}
    if kept and record(cursor, dialect, kept) != len(kept):
        raise _Changed
    cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(claims)} AND {in_status(RUNNING)} AND deferred_when IS NULL")
    if cursor.rowcount != len(claims):
        raise _Changed
    return dict.fromkeys(claims, Then.GONE)


def settle_locked(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """As :func:`settle`, with the rows locked first; inside the caller's transaction."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements])
    held = [_resolved(settlement, *found[settlement.claim]) for settlement in settlements if settlement.claim in found]
    kept = [settlement for settlement in held if settlement.keep]
    if kept:
        record(cursor, dialect, kept)
    became = {held_one.claim: Then.AGAIN if found[held_one.claim][0] else held_one.then for held_one in held}
    if gone := [claim for claim, then in became.items() if then is Then.GONE]:
        cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(gone)}")
    for settlement in held:
        if became[settlement.claim] is not Then.GONE:
            cursor.execute(*aftermath(dialect, settlement, is_deferred=found[settlement.claim][0]))
    return became


def _lock(cursor: CursorWrapper, dialect: Dialect, claims: Sequence[Claim]) -> dict[Claim, tuple[bool, bool]]:
    """The claims that are still held, each with (has a deferred schedule, was asked to cancel)."""
    dialect.begin_writing(cursor, TASK)
    held = f"{fence(claims, 't.')} AND {in_status(RUNNING, 't.')}"
    cursor.execute(
        f"SELECT t.id, t.version, t.deferred_when, t.cancel_requested_at FROM {dialect.to_lock(TASK, fence(claims))}"
        f" WHERE {held} ORDER BY t.id{dialect.for_update}"
    )
    return {(row[0], row[1]): (row[2] is not None, row[3] is not None) for row in cursor.fetchall()}


def _resolved(settlement: Settlement, deferred: bool, cancelled: bool) -> Settlement:
    """What really follows, given what happened during the run."""
    if cancelled and not deferred and settlement.then is not Then.GONE:
        return settlement._replace(then=Then.GONE, outcome=RunOutcome.CANCELLED, keep=True)
    return settlement


_RECORD = (
    Column("id", "int"),
    Column("outcome", "int"),
    Column("started", "moment"),
    Column("finished", "moment"),
    Column("result", "text"),
    Column("error", "text"),
)


def record(cursor: CursorWrapper, dialect: Dialect, settlements: Sequence[Settlement]) -> int:
    """A history row for each settlement whose claim is held, put together by the server; how many."""
    source, parameters = dialect.rows(_RECORD, [_recorded(settlement, dialect) for settlement in settlements])
    claims = fence((settlement.claim for settlement in settlements), "t.")
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) SELECT {FROM_TASK}, v.outcome, v.started, COALESCE(v.finished, {dialect.now}),"
        f" {dialect.json('v.result')}, v.error FROM {source} {dialect.driving_join} {TASK} t ON t.id = v.id"
        f" WHERE {claims} AND {in_status(RUNNING, 't.')}",
        parameters,
    )
    return int(cursor.rowcount)


def _recorded(settlement: Settlement, dialect: Dialect) -> tuple[Any, ...]:
    started = settlement.started and dialect.stored(settlement.started)
    finished = settlement.finished and dialect.stored(settlement.finished)
    return (
        settlement.claim[0],
        int(settlement.outcome),
        started,
        finished,
        settlement.result,
        settlement.error,
    )

"""Settling: the end of a run and its history are written in one transaction (the table in docs/explanation/design.md).

After most runs the task is gone, and nothing has happened to it during the run: two statements record and delete a
whole batch of these. If the counts disagree, or a task is not to be gone, the rows are locked first and read: a
schedule that was deferred during the run wins, then a cancel request, then the outcome of the run.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db import DatabaseError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.records.history import COLUMNS, from_task
from django_delayed_tasks.store.records.once import remember
from django_delayed_tasks.store.settling.next_state import next_state
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import Column, Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import RUN, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import (
    atomically,
    in_transaction,
    is_lock_timeout,
    is_transient,
    is_transient_at_once,
)


class _Changed(Exception):
    """The counts disagree: something has happened to a row of the batch during its run."""


def settle(alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """Write the end of these runs; return what became of each claim that was still held.

    For a claim that is no longer held, nothing is written.

    Then.AGAIN also stands for a deferred schedule that took effect, Then.GONE for a cancel request.

    Of two settlements of one claim the first counts. The call is idempotent: it may be repeated when it is unknown
    whether a COMMIT arrived. It waits for rows that other transactions have locked, as long as the connection allows.
    """
    return _settle(alias, _first_of_each(settlements), is_transient)


def settle_soon(
    alias: str, settlements: Sequence[Settlement], seconds: int = 1
) -> tuple[dict[Claim, Then], set[Claim]]:
    """Settle as :func:`settle` does, but wait at most ``seconds`` for rows that other transactions have locked.

    Return what became of the claims that were held, and the claims that remain unsettled because their rows are locked:
    these do not hold up the others. For the executor's own connections, outside transactions.
    """
    chosen = _first_of_each(settlements)
    dialect = dialect_of(connections[alias])
    try:
        return _settle(alias, chosen, is_transient_at_once, lambda cursor: dialect.wait_at_most(cursor, seconds)), set()
    except DatabaseError as error:
        if not is_lock_timeout(error):
            raise

    def settle_unlocked(cursor: CursorWrapper) -> tuple[dict[Claim, Then], set[Claim]]:
        dialect.wait_at_most(cursor, seconds)
        return _settle_unlocked(cursor, alias, chosen)

    try:
        return atomically(alias, settle_unlocked, is_transient_at_once)
    except DatabaseError as error:  # the history's table is locked, for example while an index is created
        if not is_lock_timeout(error):
            raise
        return {}, {settlement.claim for settlement in chosen}


def _settle(
    alias: str,
    chosen: Sequence[Settlement],
    may_try_again: Callable[[BaseException], bool],
    prepare: Callable[[CursorWrapper], None] = lambda cursor: None,
) -> dict[Claim, Then]:
    if not chosen:
        return {}

    def write(way: _Way) -> dict[Claim, Then]:
        def work(cursor: CursorWrapper) -> dict[Claim, Then]:
            prepare(cursor)
            return way(cursor, alias, chosen)

        return atomically(alias, work, may_try_again)

    all_gone = all(settlement.then is Then.GONE for settlement in chosen)
    if all_gone and not in_transaction(connections[alias]):  # within one, what it wrote could not be undone
        try:
            return write(_settle_gone)
        except _Changed:
            pass
    return write(settle_locked)


_Way = Callable[[CursorWrapper, str, Sequence[Settlement]], dict[Claim, Then]]


def _first_of_each(settlements: Sequence[Settlement]) -> list[Settlement]:
    first: dict[Claim, Settlement] = {}
    for settlement in settlements:
        first.setdefault(settlement.claim, settlement)
    return list(first.values())


def _settle_gone(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    dialect = dialect_of(connections[alias])
    kept = [settlement for settlement in settlements if settlement.keep]
    claims = {settlement.claim for settlement in settlements}
    if kept:
        record(cursor, dialect, kept)
    remember(cursor, dialect, [settlement.claim for settlement in settlements if settlement.once])
    cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(claims)} AND {in_status(RUNNING)} AND deferred_when IS NULL")
    if cursor.rowcount != len(claims):
        raise _Changed
    return dict.fromkeys(claims, Then.GONE)


def _settle_unlocked(
    cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]
) -> tuple[dict[Claim, Then], set[Claim]]:
    dialect = dialect_of(connections[alias])
    claims = [settlement.claim for settlement in settlements]
    found = _lock(cursor, dialect, claims, dialect.skip_locked)
    cursor.execute(f"SELECT id, version FROM {TASK} WHERE {fence(claims)} AND {in_status(RUNNING)}")
    waiting = {(row[0], row[1]) for row in cursor.fetchall()} - found.keys()
    return _settle_found(cursor, dialect, settlements, found), waiting


def settle_locked(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """Settle as :func:`settle` does, but lock the rows first, in the caller's transaction."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements], dialect.for_update)
    return _settle_found(cursor, dialect, settlements, found)


def settle_lockable(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """Settle as :func:`settle_locked` does, but leave rows that other transactions have locked as they are."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements], dialect.skip_locked)
    return _settle_found(cursor, dialect, settlements, found)


class _Met(NamedTuple):
    """What callers have done to a task while it ran."""

    is_deferred: bool
    is_cancelled: bool
    is_deferred_once: bool


_Found = dict[Claim, _Met]
"""The claims whose rows are locked, and what has happened to each."""


def _settle_found(
    cursor: CursorWrapper, dialect: Dialect, settlements: Sequence[Settlement], found: _Found
) -> dict[Claim, Then]:
    found |= {one.claim: _without_repeat(found[one.claim]) for one in settlements if one.once and one.claim in found}
    held = [_resolved(settlement, found[settlement.claim]) for settlement in settlements if settlement.claim in found]
    kept = [settlement for settlement in held if settlement.keep]
    if kept:
        record(cursor, dialect, kept)
    remember(cursor, dialect, [settlement.claim for settlement in held if settlement.once])
    became = {held_one.claim: Then.AGAIN if found[held_one.claim].is_deferred else held_one.then for held_one in held}
    if gone := [claim for claim, then in became.items() if then is Then.GONE]:
        cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(gone)}")
    alike: defaultdict[tuple[str, tuple[Any, ...]], list[int]] = defaultdict(list)
    for settlement in held:
        if became[settlement.claim] is not Then.GONE:
            sql, parameters = next_state(dialect, settlement, is_deferred=found[settlement.claim].is_deferred)
            alike[sql, tuple(parameters)].append(settlement.claim[0])
    for (sql, values), ids in alike.items():
        cursor.execute(f"{dialect.update(TASK)} SET {sql} WHERE id IN ({', '.join(map(str, ids))})", values)
    return became


def _lock(cursor: CursorWrapper, dialect: Dialect, claims: Sequence[Claim], locking: str) -> _Found:
    dialect.begin_writing(cursor, TASK)
    held = f"{fence(claims, 't.')} AND {in_status(RUNNING, 't.')}"
    cursor.execute(
        "SELECT t.id, t.version, t.deferred_when, t.cancel_requested_at, t.deferred_once"
        f" FROM {dialect.to_lock(TASK, fence(claims))} WHERE {held} ORDER BY t.id{locking}"
    )
    return {
        (task_id, version): _Met(deferred is not None, cancelled is not None, bool(once))
        for task_id, version, deferred, cancelled, once in cursor.fetchall()
    }


def _without_repeat(met: _Met) -> _Met:
    """Drop a deferred schedule that is to be done once, since the task has just been done."""
    return met._replace(is_deferred=met.is_deferred and not met.is_deferred_once)


def _resolved(settlement: Settlement, met: _Met) -> Settlement:
    """Return the settlement that takes effect, given what happened during the run."""
    if met.is_cancelled and not met.is_deferred and settlement.then is not Then.GONE:
        if settlement.outcome is RunOutcome.DONE:  # only its further times are cancelled
            return settlement._replace(then=Then.GONE)
        return settlement._replace(then=Then.GONE, outcome=RunOutcome.CANCELLED, keep=True)
    return settlement


_RECORD = (
    Column("id", "int"),
    Column("version", "int"),
    Column("outcome", "int"),
    Column("started", "moment"),
    Column("finished", "moment"),
    Column("result", "text"),
    Column("error", "text"),
    Column("stood_for", "moment"),
)


def record(cursor: CursorWrapper, dialect: Dialect, settlements: Sequence[Settlement]) -> None:
    """Write a history row for each settlement; the server adds the task's columns.

    The caller's transaction is rolled back if one of the claims is not held.
    """
    sent = dialect.rows(_RECORD, [_recorded(settlement) for settlement in settlements])
    of = sent.column
    when = f"COALESCE({of['stood_for']}, t.when_time)"
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS})"
        f" SELECT {from_task(when)}, {of['outcome']}, {of['started']}, COALESCE({of['finished']}, {dialect.now}),"
        f" {dialect.json(of['result'])}, {of['error']}"
        f" FROM {sent.source} {dialect.look_up(TASK, _same_claim(of))}",
        sent.parameters,
    )


def _same_claim(of: dict[str, str]) -> str:
    """Return the fence for a task row that is looked up for a sent row."""
    return f"t.id = {of['id']} AND t.version = {of['version']}"


def _recorded(settlement: Settlement) -> tuple[Any, ...]:
    return (
        *settlement.claim, int(settlement.outcome), settlement.started, settlement.finished, settlement.result,
        settlement.error, settlement.stood_for,
    )  # fmt: skip

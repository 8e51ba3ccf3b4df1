"""Settling: the end of a run is written, with its history, in one transaction (DESIGN §3, the lower rows).

Most runs end with the task gone and nothing having happened to it meanwhile: these are recorded and deleted by two
statements for the whole batch. If the counts disagree, or something else follows, the rows are locked first and
looked at: a schedule that was deferred during the run wins, then a cancel request, then what the run came to.
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
    """The counts disagree: something happened to a row of the batch."""


def settle(alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """Write the end of these runs; what became of each claim that was still held. The others write nothing.

    Then.AGAIN also stands for a deferred schedule that took effect, Then.GONE for a cancel request.

    Of two settlements of one claim the first counts. May be called again when it is unknown whether a COMMIT arrived:
    what is settled is not settled twice. Waits for rows that others have locked, as long as the connection does.
    """
    return _settle(alias, _first_of_each(settlements), is_transient)


def settle_soon(
    alias: str, settlements: Sequence[Settlement], seconds: int = 1
) -> tuple[dict[Claim, Then], set[Claim]]:
    """As :func:`settle`, waiting at most ``seconds`` for rows that others have locked, so that one of them does not
    hold up the rest; what became of the claims that were held, and the claims that wait for somebody's lock.

    For the executor's own connections, outside of transactions.
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
    except DatabaseError as error:  # the history itself is locked, as while an index is made
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
    """As :func:`settle`, with the rows locked first; inside the caller's transaction."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements], dialect.for_update)
    return _settle_found(cursor, dialect, settlements, found)


def settle_lockable(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> dict[Claim, Then]:
    """As :func:`settle_locked`, without the rows that others have locked: these are left as they are."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements], dialect.skip_locked)
    return _settle_found(cursor, dialect, settlements, found)


class _Met(NamedTuple):
    """What happened to a task from outside while it ran."""

    is_deferred: bool
    is_cancelled: bool
    is_deferred_once: bool


_Found = dict[Claim, _Met]
"""Locked claims."""


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
    """What is to be done once, and has just been, is not to be done again."""
    return met._replace(is_deferred=met.is_deferred and not met.is_deferred_once)


def _resolved(settlement: Settlement, met: _Met) -> Settlement:
    """What really follows, given what happened during the run."""
    if met.is_cancelled and not met.is_deferred and settlement.then is not Then.GONE:
        if settlement.outcome is RunOutcome.DONE:  # what is cancelled are its further times
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
    """A history row for each settlement, put together by the server; in a transaction that is undone if some claim is
    not held.
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
    """The fence of a row that is looked up for one that was sent."""
    return f"t.id = {of['id']} AND t.version = {of['version']}"


def _recorded(settlement: Settlement) -> tuple[Any, ...]:
    return (
        *settlement.claim, int(settlement.outcome), settlement.started, settlement.finished, settlement.result,
        settlement.error, settlement.stood_for,
    )  # fmt: skip

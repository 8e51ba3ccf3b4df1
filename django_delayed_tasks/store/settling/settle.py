"""Settling: the end of a run and its history are written in one transaction (the table in docs/explanation/design.md).

After most runs the task is gone, and nothing has happened to it during the run: two statements record and delete a
whole batch of these. If the counts disagree, or a task is not to be gone, the rows are locked first and read: a
schedule that was deferred during the run wins, then a cancel request, then the outcome of the run.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, NamedTuple

from django.db import DatabaseError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.records.history import COLUMNS, OF_TASK
from django_delayed_tasks.store.records.once import remember
from django_delayed_tasks.store.settling.next_state import next_state
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import Column, Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import RUN, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically, briefly, in_transaction, is_lock_timeout

_Work = Callable[[CursorWrapper], "Ended"]


class Wait(Enum):
    """How long to wait for rows and tables that other transactions have locked."""

    FOREVER = auto()
    """As long as the connection allows."""
    A_SECOND = auto()
    """For connections of this package's own threads (see ``transactions.briefly``)."""
    NOT_AT_ALL = auto()


class Ended(NamedTuple):
    """What became of the claims that were held, and the claims that remain unsettled because their rows are locked."""

    became: dict[Claim, Then]
    waiting: set[Claim]


class _Changed(Exception):
    """The counts disagree: something has happened to a row of the batch during its run."""


def settle(alias: str, settlements: Sequence[Settlement], wait: Wait = Wait.FOREVER) -> Ended:
    """Write the end of these runs; rows that stay locked for longer than ``wait`` do not hold up the others.

    For a claim that is no longer held, nothing is written. Then.AGAIN also stands for a deferred schedule that took
    effect, Then.GONE for a cancel request.

    Of two settlements of one claim the first counts. The call is idempotent: it may be repeated when it is unknown
    whether a COMMIT arrived.
    """
    chosen = _first_of_each(settlements)
    if not chosen:
        return Ended({}, set())
    if wait is Wait.NOT_AT_ALL:
        return atomically(alias, lambda cursor: _settle_unlocked(cursor, alias, chosen))
    if wait is Wait.FOREVER:
        return _settle(alias, chosen, atomically)
    try:
        return _settle(alias, chosen, briefly)
    except DatabaseError as error:
        if not is_lock_timeout(error):
            raise
    try:
        return briefly(alias, lambda cursor: _settle_unlocked(cursor, alias, chosen))
    except DatabaseError as error:  # the history's table is locked, for example while an index is created
        if not is_lock_timeout(error):
            raise
    return Ended({}, {settlement.claim for settlement in chosen})


def _settle(alias: str, chosen: list[Settlement], transact: Callable[[str, _Work], Ended]) -> Ended:
    all_gone = all(settlement.then is Then.GONE for settlement in chosen)
    if all_gone and not in_transaction(connections[alias]):  # within one, what it wrote could not be undone
        with suppress(_Changed):
            return transact(alias, lambda cursor: _settle_gone(cursor, alias, chosen))
    return transact(alias, lambda cursor: _settle_locked(cursor, alias, chosen))


def _first_of_each(settlements: Sequence[Settlement]) -> list[Settlement]:
    first: dict[Claim, Settlement] = {}
    for settlement in settlements:
        first.setdefault(settlement.claim, settlement)
    return list(first.values())


def _settle_gone(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> Ended:
    dialect = dialect_of(connections[alias])
    claims = {settlement.claim for settlement in settlements}
    _keep_records(cursor, dialect, settlements)
    cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(claims)} AND {in_status(RUNNING)} AND deferred_when IS NULL")
    if cursor.rowcount != len(claims):
        raise _Changed
    return Ended(dict.fromkeys(claims, Then.GONE), set())


def _settle_locked(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> Ended:
    """Lock the rows, waiting for those that other transactions have locked, and settle."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements], dialect.for_update)
    return Ended(_settle_found(cursor, dialect, settlements, found), set())


def _settle_unlocked(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> Ended:
    """Do as :func:`_settle_locked`, but leave rows that other transactions have locked as they are."""
    dialect = dialect_of(connections[alias])
    claims = [settlement.claim for settlement in settlements]
    found = _lock(cursor, dialect, claims, dialect.skip_locked)
    waiting: set[Claim] = set()
    if len(found) < len(claims):
        cursor.execute(f"SELECT id, version FROM {TASK} WHERE {fence(claims)} AND {in_status(RUNNING)}")
        waiting = {(row[0], row[1]) for row in cursor.fetchall()} - found.keys()
    return Ended(_settle_found(cursor, dialect, settlements, found), waiting)


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
    _keep_records(cursor, dialect, held)
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


def _keep_records(cursor: CursorWrapper, dialect: Dialect, settlements: Sequence[Settlement]) -> None:
    """Write what outlives the claims: the history, and what has been done that is to be done only once."""
    if kept := [settlement for settlement in settlements if settlement.keep]:
        record(cursor, dialect, kept)
    if once := [settlement.claim for settlement in settlements if settlement.once]:
        remember(cursor, dialect, once)


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
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS})"
        f" SELECT {OF_TASK}, COALESCE({of['stood_for']}, t.when_time), {of['outcome']}, {of['started']},"
        f" COALESCE({of['finished']}, {dialect.now}), {dialect.json(of['result'])}, {of['error']}"
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


def settle_run(alias: str, task: ClaimedTask, settlement: Settlement) -> bool:
    """Settle a run in the transaction that holds its effects, if its task is then gone and no schedule was deferred.

    Return False, with nothing written, if the run must be settled in another way. The history row is written from the
    claimed task, whose columns do not change while the claim is held.
    """
    if settlement.then is not Then.GONE or settlement.once:
        return False
    dialect = dialect_of(connections[alias])
    with connections[alias].cursor() as cursor:
        held = f"{fence([task.claim])} AND {in_status(RUNNING)} AND deferred_when IS NULL"
        cursor.execute(f"{dialect.delete(TASK)} WHERE {held}")
        if not cursor.rowcount:
            return False
        if settlement.keep:
            _record_run(cursor, dialect, task, settlement)
    return True


def _record_run(cursor: CursorWrapper, dialect: Dialect, task: ClaimedTask, settlement: Settlement) -> None:
    when = settlement.stood_for or task.when
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {dialect.json('%s')}, %s)",
        [
            *task.claim, task.biz_code, task.biz_num, task.attempts, task.executor, dialect.stored(when),
            int(settlement.outcome), settlement.started and dialect.stored(settlement.started),
            settlement.finished and dialect.stored(settlement.finished), settlement.result, settlement.error,
        ],
    )  # fmt: skip

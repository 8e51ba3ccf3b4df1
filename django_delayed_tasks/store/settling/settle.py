"""Settling: a run's end and its history in one transaction, refused if its claim is lost.

The table of all ends is in docs/explanation/design.md. After most runs the task is gone, and nothing has happened to it
during the run: two statements record and delete a whole batch of these. If the counts disagree, or a task is not to be
gone, the rows are locked first and read: a schedule that was deferred during the run wins, then a cancel request, then
the outcome of the run.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from django.db import DatabaseError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.models import EXCEPTION_LENGTH
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, stored_data
from django_delayed_tasks.store.records.history import End, Ends, KnownColumns, record, record_known
from django_delayed_tasks.store.records.once import remember
from django_delayed_tasks.store.settling.row_changes import row_changes
from django_delayed_tasks.store.settling.settlement import Settlement, as_stored, keeps_data
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import OF_CLAIM, Claim, fence, in_status
from django_delayed_tasks.store.sql.portions import MAX_TEXT, PORTION
from django_delayed_tasks.store.sql.tables import RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically, briefly, in_transaction, is_lock_timeout

_IS_RUNNING = in_status(RUNNING)
_Work = Callable[[CursorWrapper], "SettleResult"]


class Wait(Enum):
    """The time to wait for rows and tables that other transactions have locked."""

    FOREVER = auto()
    """As long as the connection allows."""
    A_SECOND = auto()
    """For connections of this package's own threads (see ``transactions.briefly``)."""
    NOT_AT_ALL = auto()


class SettleResult(NamedTuple):
    """The next states of the claims that were held, and the claims that remain unsettled because their rows are locked.

    ``claimed``: the tasks that were claimed in the same transaction.
    """

    became: dict[Claim, NextState]
    waiting: set[Claim]
    claimed: Sequence[ClaimedTask] = ()


ClaimNext = Callable[[CursorWrapper, Collection[Claim]], Sequence[ClaimedTask]]
"""Claims tasks in the transaction that has just ended the claims it is called with; returns the tasks."""


def _claim_none(cursor: CursorWrapper, ended: Collection[Claim]) -> Sequence[ClaimedTask]:
    return ()


class _Changed(Exception):
    """The counts disagree: something has happened to a row of the batch during its run."""


def settle(
    alias: str, settlements: Sequence[Settlement], wait: Wait = Wait.FOREVER, claim_next: ClaimNext = _claim_none
) -> SettleResult:
    """Write the end of these runs; rows that stay locked for longer than ``wait`` do not hold up the others.

    For a claim that is no longer held, nothing is written. In the answer, NextState.AGAIN also means that a deferred
    schedule took effect, and NextState.GONE that a cancel request did.

    Of two settlements of one claim the first counts. The call is idempotent: it may be repeated when it is unknown
    whether a COMMIT arrived. ``claim_next`` is called in the same transaction, unless rows are locked.
    """
    chosen = _first_of_each(settlements)
    if not chosen:
        return SettleResult({}, set())
    if wait is Wait.NOT_AT_ALL:
        return atomically(alias, partial(_settle_unlocked, alias=alias, settlements=chosen))
    if wait is Wait.FOREVER:
        return _settle(alias, chosen, atomically, claim_next)
    try:
        return _settle(alias, chosen, briefly, claim_next)
    except DatabaseError as error:
        if not is_lock_timeout(error):
            raise
    try:
        return briefly(alias, partial(_settle_unlocked, alias=alias, settlements=chosen))
    except DatabaseError as error:  # the history's table is locked, for example while an index is created
        if not is_lock_timeout(error):
            raise
    return SettleResult({}, {settlement.claim for settlement in chosen})


def _settle(
    alias: str, chosen: list[Settlement], transact: Callable[[str, _Work], SettleResult], claim_next: ClaimNext
) -> SettleResult:
    all_gone = {settlement.then for settlement in chosen} == {NextState.GONE}
    if all_gone and not in_transaction(connections[alias]):  # within one, what it wrote could not be undone
        with suppress(_Changed):
            return transact(alias, partial(_settle_gone, alias=alias, settlements=chosen, claim_next=claim_next))
    return transact(alias, partial(_settle_locked, alias=alias, settlements=chosen, claim_next=claim_next))


def _first_of_each(settlements: Sequence[Settlement]) -> list[Settlement]:
    first = {settlement.claim: settlement for settlement in reversed(settlements)}
    return list(first.values())[::-1]


def _settle_gone(
    cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement], claim_next: ClaimNext
) -> SettleResult:
    dialect = dialect_of(connections[alias])
    claims = {settlement.claim for settlement in settlements}
    _keep_records(cursor, dialect, as_stored(dialect, settlements))
    cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(claims)} AND {_IS_RUNNING} AND deferred_when IS NULL")
    if cursor.rowcount != len(claims):
        raise _Changed
    return SettleResult(dict.fromkeys(claims, NextState.GONE), set(), claim_next(cursor, claims))


def _settle_locked(
    cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement], claim_next: ClaimNext
) -> SettleResult:
    """Lock the rows, waiting for those that other transactions have locked, and settle."""
    dialect = dialect_of(connections[alias])
    found = _lock(cursor, dialect, [settlement.claim for settlement in settlements], dialect.for_update)
    became = _settle_found(cursor, dialect, settlements, found)
    return SettleResult(became, set(), claim_next(cursor, became))


def _settle_unlocked(cursor: CursorWrapper, alias: str, settlements: Sequence[Settlement]) -> SettleResult:
    """Settle like :func:`_settle_locked`, but leave rows that other transactions have locked as they are."""
    dialect = dialect_of(connections[alias])
    claims = [settlement.claim for settlement in settlements]
    found = _lock(cursor, dialect, claims, dialect.skip_locked)
    waiting: set[Claim] = set()
    if len(found) < len(claims):
        cursor.execute(f"SELECT {OF_CLAIM} FROM {TASK} WHERE {fence(claims)} AND {_IS_RUNNING}")
        waiting = set(map(Claim._make, cursor.fetchall())) - found.keys()
    return SettleResult(_settle_found(cursor, dialect, settlements, found), waiting)


class _DuringRun(NamedTuple):
    """The changes that callers have made to a task while it ran."""

    is_deferred: bool
    is_cancelled: bool
    is_deferred_once: bool


_Found = dict[Claim, _DuringRun]
"""The claims whose rows are locked, and what has happened to each."""


def _settle_found(
    cursor: CursorWrapper, dialect: Dialect, settlements: Sequence[Settlement], found: _Found
) -> dict[Claim, NextState]:
    found |= {one.claim: _without_repeat(found[one.claim]) for one in settlements if one.once and one.claim in found}
    held = [_resolved(one, found[one.claim]) for one in as_stored(dialect, settlements) if one.claim in found]
    _keep_records(cursor, dialect, held)
    became = {
        held_one.claim: NextState.AGAIN if found[held_one.claim].is_deferred else held_one.then for held_one in held
    }
    if gone := [claim for claim, then in became.items() if then is NextState.GONE]:
        cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(gone)}")
    alike: defaultdict[tuple[str, tuple[Any, ...]], list[int]] = defaultdict(list)
    for settlement in held:
        if became[settlement.claim] is not NextState.GONE:
            sql, parameters = row_changes(dialect, settlement, is_deferred=found[settlement.claim].is_deferred)
            alike[sql, tuple(parameters)].append(settlement.claim.id)
    for (sql, values), ids in alike.items():
        cursor.execute(f"{dialect.update(TASK)} SET {sql} WHERE id IN ({', '.join(map(str, ids))})", values)
    return became


def _keep_records(cursor: CursorWrapper, dialect: Dialect, settlements: Sequence[Settlement]) -> None:
    """Write what outlives the claims: the history, and what has been done that is to be done only once."""
    if kept := [settlement for settlement in settlements if settlement.keep]:
        record(cursor, dialect, _ends(kept))
    if once := [settlement.claim for settlement in settlements if settlement.once]:
        remember(cursor, dialect, once)


def _lock(cursor: CursorWrapper, dialect: Dialect, claims: Sequence[Claim], locking: str) -> _Found:
    dialect.begin_writing(cursor, TASK)
    held = f"{fence(claims, 't.')} AND {in_status(RUNNING, 't.')}"
    cursor.execute(
        "SELECT t.id, t.version, t.executor, t.deferred_when, t.cancel_requested_at, t.deferred_once"
        f" FROM {dialect.to_lock(TASK, fence(claims))} WHERE {held} ORDER BY t.id{locking}"
    )
    return {
        Claim(*claim): _DuringRun(deferred is not None, cancelled is not None, bool(once))
        for *claim, deferred, cancelled, once in cursor.fetchall()
    }


def _without_repeat(met: _DuringRun) -> _DuringRun:
    """Drop a deferred schedule that is to be done once, since the task has just been done."""
    return met._replace(is_deferred=met.is_deferred and not met.is_deferred_once)


def _resolved(settlement: Settlement, met: _DuringRun) -> Settlement:
    """Return the settlement that takes effect, given what happened during the run."""
    if met.is_cancelled and not met.is_deferred and settlement.then is not NextState.GONE:
        if settlement.outcome is RunOutcome.DONE:  # only its further times are cancelled
            return settlement._replace(then=NextState.GONE)
        return settlement._replace(then=NextState.GONE, outcome=RunOutcome.CANCELLED, keep=True)
    return settlement


def settle_run(alias: str, task: ClaimedTask, settlement: Settlement) -> bool:
    """Settle a run in the transaction that holds its effects, if its task is then gone and no schedule was deferred.

    Return False, with nothing written, if the run must be settled in another way. The history row is written from the
    claimed task, whose columns do not change while the claim is held.
    """
    if settlement.then is not NextState.GONE or settlement.once:
        return False
    dialect = dialect_of(connections[alias])
    with connections[alias].cursor() as cursor:
        held = f"{fence([task.claim])} AND {_IS_RUNNING} AND deferred_when IS NULL"
        cursor.execute(f"{dialect.delete(TASK)} WHERE {held}")
        if not cursor.rowcount:
            return False
        if settlement.keep:
            known = KnownColumns(task.biz_code, task.biz_num, task.attempts, task.when, stored_data(task))
            record_known(cursor, dialect, known, _end(as_stored(dialect, [settlement])[0]))
    return True


def _end(one: Settlement) -> End:
    """Return the end that the history records for a settlement."""
    return End(
        *one.claim, int(one.outcome), one.started, one.finished, one.result, one.error, _path(one.exception),
        keeps_data(one), one.stood_for,
    )  # fmt: skip


def _path(exception: BaseException | None) -> str | None:
    return None if exception is None else path_of(type(exception))


def _ends(settlements: Sequence[Settlement]) -> Ends:
    """Return the :func:`_end` of each of them, by column: making a value for each costs more than the rest."""
    return Ends(
        [one.claim.id for one in settlements],
        [one.claim.version for one in settlements],
        [one.claim.executor for one in settlements],
        [int(one.outcome) for one in settlements],
        [one.started for one in settlements],
        [one.finished for one in settlements],
        [one.result for one in settlements],
        [one.error for one in settlements],
        [None if one.exception is None else _path(one.exception) for one in settlements],
        [keeps_data(one) for one in settlements],
        [one.stood_for for one in settlements],
    )


def path_of(exception: type[BaseException]) -> str:
    """Return the dotted path of the class of an exception, as far as the history has room for it."""
    return f"{exception.__module__}.{exception.__qualname__}"[:EXCEPTION_LENGTH]


class Chunk:
    """Settlements for one statement: no more of them, and no more text, than it can carry."""

    def __init__(self) -> None:
        self.settlements: list[Settlement] = []
        self._text = 0

    def add(self, settlement: Settlement) -> bool:
        """Add one settlement; return whether the chunk is now full."""
        self.settlements.append(settlement)
        if settlement.result or settlement.error:
            self._text += len(settlement.result or "") + len(settlement.error)
        return len(self.settlements) == PORTION or self._text > MAX_TEXT


def in_chunks(settlements: Iterable[Settlement]) -> Iterator[list[Settlement]]:
    """Yield all of the settlements, in chunks."""
    chunk = Chunk()
    for settlement in settlements:
        if chunk.add(settlement):
            yield chunk.settlements
            chunk = Chunk()
    if chunk.settlements:
        yield chunk.settlements

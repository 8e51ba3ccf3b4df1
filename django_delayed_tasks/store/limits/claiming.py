"""Claims tasks and takes their slots and rate tokens in one transaction; blocks those whose key has none.

A slot and the claim that it names are written together. So no executor ever sees a slot that names a claim which is yet
to be made, and a crash leaves neither a slot without a claim nor a claim without a slot.

Tasks and permits that other transactions have locked are left out, where the database can do that: neither a caller nor
an executor that was stopped in the middle of its claim holds up the others.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS, ClaimedTask, claimed
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced, candidates, taking, unclaimed
from django_delayed_tasks.store.resources.rate_tokens import Token, write_tokens
from django_delayed_tasks.store.resources.slots import Slot, write_slots
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, Seen, in_status, unchanged
from django_delayed_tasks.store.sql.lanes import OPENED
from django_delayed_tasks.store.sql.tables import PENDING, RESOURCE, TASK
from django_delayed_tasks.store.sql.transactions import atomically, decisively


class Place(NamedTuple):
    """A level of the open lane of a limited code, or of the lane of one of its keys.

    Nothing claimable is expected in it before ``watermark`` (None if that is unknown).
    """

    lane: str
    queue: str
    priority: int
    watermark: datetime | None = None


Found = dict[Place, list[ClaimedTask]]


def read_places(alias: str, executor: int, places: Mapping[Place, int], rescues_below: int | None = None) -> Found:
    """Return the first due tasks of these places, at most as many as given for each, as they will be once claimed."""
    dialect = dialect_of(connections[alias])
    statements, parameters = [], []
    columns = ("{number} AS place", *COLUMNS)
    for number, (place, limit) in enumerate(places.items()):
        request = ClaimRequest(
            executor, place.queue, place.priority, limit,
            watermark=place.watermark, rescues_below=rescues_below, lane=place.lane,
        )  # fmt: skip
        sql, values = candidates(dialect, request, [column.format(number=number) for column in columns])
        statements.append(sql)
        parameters += values
    sql = dialect.union(statements)

    def read(cursor: CursorWrapper) -> list[tuple[Any, ...]]:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

    found: Found = {place: [] for place in places}
    numbered = list(places)
    # On a cluster the node must have seen what others have blocked: they may count on this executor to look again.
    for number, *row in decisively(alias, read):
        found[numbered[number]].append(claimed(tuple(row), dialect, executor, newer=1))
    return found


class ClaimChoice(NamedTuple):
    """The tasks to be claimed and blocked.

    Attributes:
        tasks: the tasks to claim, as they will be once they are claimed.
        slots: the slots, as they were found, of the tasks that need one.
        tokens: the rate tokens, as they were found, of the tasks that need one; each is leased for ``period``.
        blocked: the lanes of the tasks to block.
    """

    tasks: list[ClaimedTask]
    slots: Mapping[Claim, Slot]
    tokens: Mapping[Claim, Token]
    period: timedelta
    blocked: Mapping[ClaimedTask, str]


class ClaimResult(NamedTuple):
    """The result of a claim of limited tasks.

    Attributes:
        won: the tasks that are now RUNNING in this executor's name.
        blocked: the tasks that are now blocked.
        passed: the claims of tasks that were taken, changed or locked by others since they were read. The permits of
            all others that were not won are those of other executors now.
    """

    won: list[ClaimedTask]
    blocked: list[ClaimedTask]
    passed: set[Claim]


def claim_chosen(alias: str, executor: int, chosen: ClaimChoice) -> ClaimResult:
    """Claim and block; what others have taken, changed or locked since it was read is left as it is."""
    dialect = dialect_of(connections[alias])

    def write(cursor: CursorWrapper) -> ClaimResult:
        dialect.begin_writing(cursor, TASK)
        return _write(cursor, dialect, executor, chosen)

    return atomically(alias, write) if chosen.tasks or chosen.blocked else ClaimResult([], [], set())


def claim_in_slots(
    cursor: CursorWrapper, alias: str, executor: int, slots: Mapping[ClaimedTask, Slot]
) -> list[ClaimedTask]:
    """Claim these tasks in the transaction that ends the claims which hold their slots; return those that were won."""
    if not slots:
        return []
    by_claim = {task.claim: slot for task, slot in slots.items()}
    chosen = ClaimChoice(list(slots), by_claim, {}, timedelta(), {})
    return _write(cursor, dialect_of(connections[alias]), executor, chosen).won


def _write(cursor: CursorWrapper, dialect: Dialect, executor: int, chosen: ClaimChoice) -> ClaimResult:
    tasks, permits = _lock(cursor, dialect, executor, chosen)
    won = [task for task in chosen.tasks if task.claim in tasks and permits.issuperset(_permits_of(chosen, task))]
    blocked = [task for task in chosen.blocked if task.claim in tasks]
    _take_permits(cursor, dialect, chosen, won)
    if won:
        values = f"{taking(dialect, executor)}, lane = {OPENED}"
        cursor.execute(f"{dialect.update(TASK)} SET {values} WHERE {unclaimed(won)}")
    if blocked:
        _block(cursor, dialect, {task: chosen.blocked[task] for task in blocked})
    return ClaimResult(won, blocked, {task.claim for task in (*chosen.tasks, *chosen.blocked)} - tasks)


def _permits_of(chosen: ClaimChoice, task: ClaimedTask) -> list[Seen]:
    return [permits[task.claim] for permits in (chosen.slots, chosen.tokens) if task.claim in permits]


def _lock(cursor: CursorWrapper, dialect: Dialect, executor: int, chosen: ClaimChoice) -> tuple[set[Claim], set[Seen]]:
    """Lock the tasks and the permits that have not changed since they were read, without waiting for others.

    Return the tasks as they will be claimed, and the permits as they were seen.
    """
    tasks = [*chosen.tasks, *chosen.blocked]
    sql = f"SELECT 0 AS kind, id, version FROM {dialect.by_key(TASK)} WHERE {in_status(PENDING)} AND {unclaimed(tasks)}"
    sql += dialect.skip_locked
    if permits := [*chosen.slots.values(), *chosen.tokens.values()]:
        rows = f"SELECT 1 AS kind, id, version FROM {dialect.by_key(RESOURCE)} WHERE {unchanged(permits)}"
        # Not SELECT … UNION SELECT …: PostgreSQL locks no rows of a union, but those of its derived tables.
        sql = f"SELECT * FROM ({sql}) t UNION ALL SELECT * FROM ({rows}{dialect.skip_locked}) p"
    cursor.execute(sql)
    found = cursor.fetchall()
    return (
        {Claim(row_id, version + 1, executor) for kind, row_id, version in found if kind == 0},
        {(row_id, version) for kind, row_id, version in found if kind == 1},
    )


def _take_permits(cursor: CursorWrapper, dialect: Dialect, chosen: ClaimChoice, won: Collection[ClaimedTask]) -> None:
    slots = {task.claim: chosen.slots[task.claim] for task in won if task.claim in chosen.slots}
    tokens = [chosen.tokens[task.claim] for task in won if task.claim in chosen.tokens]
    if slots and not write_slots(cursor, dialect, slots):
        raise Outpaced
    if tokens and not write_tokens(cursor, dialect, tokens, chosen.period):
        raise Outpaced


def _block(cursor: CursorWrapper, dialect: Dialect, lanes: Mapping[ClaimedTask, str]) -> None:
    cases = " ".join(f"WHEN {task.id:d} THEN %s" for task in lanes)
    sql = f"{dialect.update(TASK)} SET lane = CASE id {cases} ELSE lane END WHERE {unclaimed(lanes)}"
    cursor.execute(sql, list(lanes.values()))

"""Affinity: which due rows an executor prefers when several executors claim without locks.

Each executor prefers its own share of the due rows, so that two of them seldom try for the same row. An executor that
finds no due row in its own share steals from the others' shares: their owners may be busy, or serve other queues.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.transactions import in_one_statement

Rows = list[tuple[Any, ...]]
_ID, _CLAIM_AT = COLUMNS.index("id"), COLUMNS.index("claim_at")

_MIXED = 2**16
OWN, OTHERS = 20_251, 25_717
"""Hash multipliers: ``OWN`` assigns a task to its preferred executor, ``OTHERS`` to the executor that may steal it."""
MOST_OF_OTHERS, MOST_OF_ANY = 8, 2
"""The rows that an executor steals at once: of its part of the others' shares; and of any share, if that part is empty
or rows are left behind."""
LEFT_BEHIND = timedelta(seconds=10)
"""How much longer other executors' tasks may wait than this executor's own; beyond that they are claimed first."""


def share_of(task_id: int, executors: int, multiplier: int = OWN) -> int:
    """Return the rank of the executor, among ``executors`` live ones, that this task is assigned to.

    The id is mixed first (multiplicative hashing; Knuth, The Art of Computer Programming 3, 6.4): on a Galera cluster
    each node counts ids in steps of the number of nodes, so all ids of one node could fall to a single executor.
    """
    return task_id % _MIXED * multiplier % _MIXED * executors // _MIXED


def share(request: ClaimRequest, multiplier: int = OWN, task_id: str = "id") -> str:
    """Return the SQL condition that :func:`share_of` the row is the request's rank, for a statement with parameters.

    The arithmetic overflows no integer type of any supported database.
    """
    first, last = (-(-_MIXED * place // request.executors) for place in (request.rank, request.rank + 1))
    return f"{task_id} %% {_MIXED} * {multiplier} %% {_MIXED} BETWEEN {first} AND {last - 1}"


def preferred(alias: str, dialect: Dialect, request: ClaimRequest) -> Rows:
    """Return the due rows that the executor should try to claim."""
    if request.executors == 1:
        return _read(alias, dialect, request)
    mine = _read(alias, dialect, request, share(request))
    few = replace(request, limit=min(request.limit, MOST_OF_OTHERS))
    fewer = replace(request, limit=min(request.limit, MOST_OF_ANY))
    if mine and _leaves_behind(dialect, request, mine):
        # The first of any share too: the executor that may steal them may be as busy as their owner.
        first = _read(alias, dialect, few, share(request, OTHERS)) + _read(alias, dialect, fewer)
        by_id = {row[_ID]: row for row in (*first, *mine)}
        return sorted(by_id.values(), key=lambda row: (row[_CLAIM_AT], row[_ID]))[: request.limit]
    if mine:
        return mine
    # From the tail: the executors that own these rows take them from the head.
    latest = _read(alias, dialect, few, share(request, OTHERS), "DESC")
    return latest[::-1] or _read(alias, dialect, fewer)


def _leaves_behind(dialect: Dialect, request: ClaimRequest, mine: Rows) -> bool:
    oldest = dialect.to_datetime(mine[0][_CLAIM_AT])
    return request.floor is not None and oldest - request.floor > LEFT_BEHIND


def _read(
    alias: str, dialect: Dialect, request: ClaimRequest, share: str = "", direction: Literal["ASC", "DESC"] = "ASC"
) -> Rows:
    sql, parameters = candidates(dialect, request, share=share, direction=direction)

    def read(cursor: CursorWrapper) -> Rows:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

    return in_one_statement(alias, read)

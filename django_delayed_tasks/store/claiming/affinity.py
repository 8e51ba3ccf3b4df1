"""Affinity: which due rows an executor prefers when several executors claim without locks.

Each executor prefers its own share of the due rows, so that two of them seldom try for the same row. An executor that
finds no due row in its own share steals from the others' shares: their owners may be busy, or serve other queues.
"""

from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import COLUMNS
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates
from django_delayed_tasks.store.sql.dialects import IN_LEVEL, Dialect
from django_delayed_tasks.store.sql.transactions import read_rows

Rows = list[tuple[Any, ...]]
_ID, _CLAIM_AT = COLUMNS.index("id"), COLUMNS.index("claim_at")
_in_order = itemgetter(*map(COLUMNS.index, IN_LEVEL))

_MIXED = 2**16
"""The range of a mixed id: products of two such numbers fit every integer type."""
OWN, OTHERS = 20_251, (25_717, 31_337, 12_979, 28_657, 17_711, 30_031, 14_639, 22_699)
"""Hash multipliers: ``OWN`` assigns a task to its preferred executor; ``OTHERS`` rotate every second when executors
steal, so that no task stays assigned to an executor that does not take it.
"""


def share_of(task_id: int, executors: int, multiplier: int = OWN) -> int:
    """Return the place of the executor, among ``executors`` live ones, that this task is assigned to.

    The id is mixed first (multiplicative hashing; Knuth, The Art of Computer Programming 3, 6.4): on a Galera cluster
    each node counts ids in steps of the number of nodes, so all ids of one node could fall to a single executor.
    """
    return task_id % _MIXED * multiplier % _MIXED * executors // _MIXED


def share(request: ClaimRequest, multiplier: int = OWN, task_id: str = "id") -> str:
    """Return the SQL condition that :func:`share_of` the row is the request's place, for a statement with parameters.

    The arithmetic overflows no integer type of any supported database.
    """
    first, last = (-(-_MIXED * place // request.executors) for place in (request.place, request.place + 1))
    return f"{task_id} %% {_MIXED} * {multiplier} %% {_MIXED} BETWEEN {first} AND {last - 1}"


STEAL_STEP, CONTESTED_STEAL = 8, 2
"""Steal size: start at 8 rows, grow by 8 after each uncontested steal; 2 when stealing itself is contested."""
LEFT_BEHIND = timedelta(seconds=10)
"""The time by which other executors' tasks may wait longer than this one's own; beyond that they are claimed first."""
_steal_sizes: dict[tuple[str, int], int] = {}
"""By alias and executor: the steal size."""


class Affinity:
    """The rows that one executor should try to claim now."""

    def __init__(self, alias: str, dialect: Dialect, request: ClaimRequest) -> None:
        self._alias = alias
        self.dialect = dialect
        self.request = request
        self._key = (alias, request.executor)
        self._is_steal = False

    def read(self) -> Rows:
        """Return the due rows that the executor should try to claim."""
        if self.request.executors == 1:
            return self._read()
        mine = self._read(OWN)
        if mine:
            return self._with_left_behind(mine) if self._leaves_behind(mine) else mine
        self._is_steal = True
        # From the tail: the executors that own these rows take them from the head.
        latest = self._read(self._part(), "DESC", most=self._steal())
        return latest[::-1] or self._read(most=CONTESTED_STEAL)

    def note(self, won_all: bool) -> None:
        """Adjust the steal size; ``won_all`` says whether all of the rows that were read could be claimed."""
        if self._is_steal:
            more = STEAL_STEP + _steal_sizes.get(self._key, STEAL_STEP)
            _steal_sizes[self._key] = min(more, self.request.limit) if won_all else STEAL_STEP

    def _steal(self) -> int:
        return max(STEAL_STEP, _steal_sizes.get(self._key, 0))

    def _part(self) -> int:
        # Executors stealing in the same second get disjoint parts; in another second the parts are different.
        moment = int(clock.host_now().timestamp())
        return OTHERS[moment % len(OTHERS)]

    def _leaves_behind(self, mine: Rows) -> bool:
        oldest, watermark = self.dialect.to_datetime(mine[0][_CLAIM_AT]), self.request.watermark
        return watermark is not None and oldest - watermark > LEFT_BEHIND

    def _with_left_behind(self, mine: Rows) -> Rows:
        first = self._read(self._part(), most=STEAL_STEP)
        by_id = {row[_ID]: row for row in (*first, *mine)}
        return sorted(by_id.values(), key=_in_order)[: self.request.limit]

    def _read(self, multiplier: int | None = None, direction: Any = "ASC", most: int | None = None) -> Rows:
        """Return the rows in that order, ``most`` at most; with a hash multiplier, those of this executor's share."""
        request = self.request
        few = request if most is None else replace(request, limit=min(request.limit, most))
        condition = "" if multiplier is None else share(request, multiplier)
        return read_rows(self._alias, *candidates(self.dialect, few, share=condition, direction=direction))

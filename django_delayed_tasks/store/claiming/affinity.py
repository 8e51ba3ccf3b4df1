"""How executors that claim without locks keep off each other's rows: each has a share of the due ones.

One that has nothing of its own takes of what is best left to others: these may be busy for long, or serve other queues.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import COLUMNS
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.transactions import in_one_statement

Rows = list[tuple[Any, ...]]
_ID, _CLAIM_AT = COLUMNS.index("id"), COLUMNS.index("claim_at")

_MIXED = 2**16
OWN = 20_251
OTHERS = (25_717, 31_337, 12_979, 28_657, 17_711, 30_031, 14_639, 22_699)
"""Multipliers: what is best left to whom; and among those that take what was left to somebody else, one after the
other, so that no task is always best left to somebody else.
"""


def share_of(task_id: int, executors: int, multiplier: int = OWN) -> int:
    """The rank of the executor, of so many, that this task is best left to.

    The id is mixed first (multiplicative hashing; Knuth, The Art of Computer Programming 3, 6.4): the ids of one node
    of a Galera cluster have a step of the number of nodes, so that all of them would be one executor's.
    """
    return task_id % _MIXED * multiplier % _MIXED * executors // _MIXED


def share(request: ClaimRequest, multiplier: int = OWN, task_id: str = "id") -> str:
    """The condition that :func:`share_of` the row is the request's rank; for a statement with parameters. No integer
    of any database overflows with it.
    """
    first, last = (-(-_MIXED * place // request.executors) for place in (request.rank, request.rank + 1))
    return f"{task_id} %% {_MIXED} * {multiplier} %% {_MIXED} BETWEEN {first} AND {last - 1}"


FEWEST_OF_OTHERS, MOST_OF_ANYBODYS = 8, 2
"""Tasks that are taken at once of what is best left to others, as long as these want them, too: so many more each time
that they do not. And when even that is in the way of others who do the same.
"""
LEFT_BEHIND = timedelta(seconds=10)
"""How much longer than one's own tasks may those of others wait; then they come first."""
_of_others: dict[tuple[str, int], int] = {}
"""By alias and executor: how many it takes at once."""


class Affinity:
    """What one executor may claim now."""

    def __init__(self, alias: str, dialect: Dialect, request: ClaimRequest) -> None:
        self._alias = alias
        self._dialect = dialect
        self._request = request
        self._key = (alias, request.executor)
        self._is_of_others = False

    def read(self) -> Rows:
        """The due rows that it should try to claim."""
        if self._request.executors == 1:
            return self._read(self._request)
        mine = self._read(self._request, share(self._request))
        if mine:
            return self._with_left_behind(mine) if self._leaves_behind(mine) else mine
        self._is_of_others = True
        # Those to whom they are left take theirs from the other end.
        latest = self._read(self._others(), self._part(), "DESC")
        return latest[::-1] or self._read(replace(self._request, limit=min(self._request.limit, MOST_OF_ANYBODYS)))

    def note(self, won_all: bool) -> None:
        """Whether all of the rows that were read could be claimed."""
        if self._is_of_others:
            more = FEWEST_OF_OTHERS + _of_others.get(self._key, FEWEST_OF_OTHERS)
            _of_others[self._key] = min(more, self._request.limit) if won_all else FEWEST_OF_OTHERS

    def _others(self) -> ClaimRequest:
        most = max(FEWEST_OF_OTHERS, _of_others.get(self._key, 0))
        return replace(self._request, limit=min(self._request.limit, most))

    def _part(self) -> str:
        # All that do so at this moment have each another part; a moment later the parts are others.
        moment = int(clock.host_now().timestamp())
        return share(self._request, OTHERS[moment % len(OTHERS)])

    def _leaves_behind(self, mine: Rows) -> bool:
        floor = self._request.floor
        return floor is not None and self._dialect.to_datetime(mine[0][_CLAIM_AT]) - floor > LEFT_BEHIND

    def _with_left_behind(self, mine: Rows) -> Rows:
        first = self._read(replace(self._request, limit=min(self._request.limit, FEWEST_OF_OTHERS)), self._part())
        by_id = {row[_ID]: row for row in (*first, *mine)}
        return sorted(by_id.values(), key=lambda row: (row[_CLAIM_AT], row[_ID]))[: self._request.limit]

    def _read(self, request: ClaimRequest, share: str = "", direction: Any = "ASC") -> Rows:
        sql, parameters = candidates(self._dialect, request, share=share, direction=direction)

        def read(cursor: CursorWrapper) -> Rows:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

        return in_one_statement(self._alias, read)

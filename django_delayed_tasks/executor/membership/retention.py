"""The retention of the runs of each code: what its handler says, or else ``KEEP_HISTORY``.

A code without a handler in this process may have one in another deployment, which may keep its runs for longer. So its
runs are left to the executors that have the handler, until none has had it for as long as ``KEEP_HISTORY``: then the
handler is gone.
"""

from collections.abc import Container
from datetime import timedelta

from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store.executors import codes_since
from django_delayed_tasks.store.records.purging import RUNS, Aging, AllBut, purge


class Way:
    """A way through a table in the order of primary keys, which purges what is older than ``period``.

    It passes each row once, so rows that are kept for longer are not read again. Those that were passed because they
    were ahead of their time are looked at again from time to time, after :meth:`turn`.
    """

    def __init__(self, alias: str, period: timedelta, codes: Container[str], rows_of: Aging = RUNS) -> None:
        self.codes = codes
        self._alias = alias
        self._period = period
        self._rows_of = rows_of
        self._position = 0
        self._young: set[int] = set()
        self._again: set[int] = set()

    def turn(self) -> None:
        """Look at rows that were ahead of their time again."""
        self._again |= self._young
        self._young = set()

    def purge(self, batch_size: int) -> bool:
        """Purge a batch; return whether there is more to do now."""
        is_again = bool(self._again)
        after = self._again.pop() if is_again else self._position
        purged = purge(self._alias, self._period, self.codes, after, batch_size, self._rows_of)
        if not is_again:
            self._position = purged.position
        if 0 < purged.young <= self._position:
            self._young.add(purged.young - 1)
        return is_again or not purged.is_complete


class Retention:
    """The purge of the history by one executor; ``default`` None: forever, unless a handler says otherwise.

    There is one way through the history for each period. It begins at the first row when its codes change.
    """

    def __init__(self, alias: str, default: timedelta | None) -> None:
        self._alias = alias
        self._default = default
        self._ways: dict[timedelta, Way] = {}

    def purge(self, batch_size: int) -> bool:
        """Purge a batch for each period; return whether there is more to do now."""
        has_more = [way.purge(batch_size) for way in self._ways.values()]
        return any(has_more)

    def refresh_periods(self) -> None:
        """Learn the periods, and the codes that are left to other executors; look again at rows ahead of their time."""
        ways, self._ways = self._ways, {}
        for period, codes in self._by_period().items():
            way = ways.get(period)
            self._ways[period] = way if way and way.codes == codes else Way(self._alias, period, codes)
            self._ways[period].turn()

    def _by_period(self) -> dict[timedelta, Container[str]]:
        own = {code: handler.history_period or self._default for code, handler in get_task_handlers().items()}
        kept: dict[timedelta, Container[str]] = {
            period: frozenset(code for code in own if own[code] == period) for period in own.values() if period
        }
        if self._default:
            otherwise = frozenset(code for code in own if own[code] != self._default)
            kept[self._default] = AllBut(otherwise | (codes_since(self._alias, self._default) - own.keys()))
        return kept

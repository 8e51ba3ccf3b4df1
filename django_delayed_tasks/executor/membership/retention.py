"""How long the history keeps the runs of each code: as long as its handler says, else as long as ``KEEP_HISTORY``.

A code without a handler in this process may have one in another deployment, which may keep its runs for longer. So its
runs are left to the executors that have the handler, until none has had it for as long as ``KEEP_HISTORY``: then the
handler is gone.
"""

from collections.abc import Container
from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store.executors import codes_since
from django_delayed_tasks.store.records.history import AllBut, purge

AGAIN = 86_400.0
"""Seconds after which the ways through the history begin again."""


class Retention:
    """The purge of the history by one executor; ``default`` None: forever, unless a handler says otherwise.

    There is one way through the history for each period, in the order of primary keys. It passes each row once, so rows
    that are kept for long are not read again until the ways begin again: when the periods change, and once a day, for
    rows that were passed because they were ahead of their time, or that have lower ids than earlier ones.
    """

    def __init__(self, alias: str, default: timedelta | None) -> None:
        self._alias = alias
        self._default = default
        self._kept: dict[timedelta, Container[str]] = {}
        self._positions: dict[timedelta, int] = {}
        self._began = clock.monotonic()

    def purge(self, batch_size: int) -> bool:
        """Purge a batch for each period; return whether there is more to do now."""
        has_more = [self._purge(period, batch_size) for period in self._kept]
        return any(has_more)

    def _purge(self, period: timedelta, batch_size: int) -> bool:
        purged = purge(self._alias, period, self._kept[period], self._positions.get(period, 0), batch_size)
        self._positions[period] = purged.position
        return not purged.is_complete

    def look_around(self) -> None:
        """Learn the periods, and the codes that are left to other executors; begin at the first row if it is time."""
        kept, now = self._by_period(), clock.monotonic()
        if kept != self._kept or now - self._began >= AGAIN:
            self._kept, self._positions, self._began = kept, {}, now

    def _by_period(self) -> dict[timedelta, Container[str]]:
        own = {code: handler.history_period or self._default for code, handler in get_task_handlers().items()}
        kept: dict[timedelta, Container[str]] = {
            period: frozenset(code for code in own if own[code] == period) for period in own.values() if period
        }
        if self._default:
            otherwise = frozenset(code for code in own if own[code] != self._default)
            kept[self._default] = AllBut(otherwise | (codes_since(self._alias, self._default) - own.keys()))
        return kept

"""Acquiring a resource that the caller chooses by its payload.

Such a caller does not stand in the wait queue, where it would hold up those behind it while nothing that it wants is
free: it looks at the free resources again and again.
"""

from collections.abc import Callable
from typing import Any, Final

from django_delayed_tasks import clock
from django_delayed_tasks.leases.acquiring import Contender, Request, Won
from django_delayed_tasks.leases.asynchronous import Cancelled
from django_delayed_tasks.leases.pauses import Pauses
from django_delayed_tasks.leases.reconnecting import reconnecting
from django_delayed_tasks.store.resources import free
from django_delayed_tasks.store.resources.line import LAST, LOOK_AHEAD, View
from django_delayed_tasks.store.resources.resources import Details

Where = Callable[[Any], object]

ROWS_A_SECOND: Final = 2000
"""How many rows a waiting caller reads at most, apart from those of resources that became free since its last look."""
_FAR_BACK: Final = View(LOOK_AHEAD, True, [])
"""What a caller sees when nothing fits: it is far from the front of the line, so its pauses grow to a second."""


class Chooser(Contender):
    """A caller that wants a resource whose payload it accepts."""

    def __init__(self, request: Request, when_busy: Callable[[], bool], where: Where) -> None:
        """Store the request, as :class:`Contender` does; ``where(payload)`` is true of the resources that are wanted.

        What it raises is passed on.
        """
        super().__init__(request, when_busy)
        self._where = where
        self._last = free.BEFORE_ALL
        self._starts_again_at = 0.0

    def _accepts(self, found: Details) -> bool:
        return bool(self._where(found.payload))  # it may have changed since it was read

    def _stand_in_line(self, deadline: float | None) -> Won:
        return self._wait(LAST, Pauses(), deadline)

    def _try(self, place: int) -> tuple[Won | None, View]:
        """Take the first free resource that fits. The next look continues where this one ended.

        Now and then it begins again, since resources are added and enabled, and payloads change.
        """
        alias, pool = self._request.alias, self._request.wanted.pool
        if clock.monotonic() >= self._starts_again_at:
            self._last, self._starts_again_at = free.BEFORE_ALL, clock.monotonic()
        page = [free.BEFORE_ALL] * free.PAGE
        while len(page) == free.PAGE:
            if self._request.is_cancelled():
                raise Cancelled
            page = reconnecting(alias, lambda: free.page_after(alias, pool, self._last))
            self._starts_again_at += len(page) / ROWS_A_SECOND
            for self._last in page:
                begun = clock.monotonic()
                if self._where(self._last.payload) and (grant := self._take((self._last.id, self._last.version))):
                    return (grant, begun), _FAR_BACK
        return None, _FAR_BACK

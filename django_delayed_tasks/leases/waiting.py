"""The wait of a caller: its place in the wait queue, its pauses, its wakings; and connections that broke meanwhile."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock
from typing import Final, TypeVar

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.leases.renewer import PLACE_TTL, Place, renewer
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.resources.resources import WantedResource
from django_delayed_tasks.store.sql.kept_connections import is_current, opened
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import Log

MIN_PAUSE: Final = 0.02
"""Seconds between two looks at least: each is a statement."""
MAX_PAUSE: Final = 1.0
"""Seconds between two looks at most, and after an error: how late the end of another process's lease may be noticed."""
GRACE: Final = 0.3
"""Seconds for which a free resource is reserved for contenders ahead; more than any pause of the first one."""
SHARE_OF_WAIT: Final = 0.3
"""The part of the time waited so far that a pause takes at most: how late an unexpected release may be noticed."""


class Pauses:
    """Pauses that adapt to the queue's speed: a contender that is far back, or has waited for long, looks rarely."""

    def __init__(self) -> None:
        self._began = clock.monotonic()
        self._first: int | None = None
        self.woken = Event()
        """Set when a resource was given back in this process: the contender then looks at once."""

    def sleep(self, ahead: int, is_something_free: bool, deadline: float | None) -> None:
        """Wait for the next pause, but not beyond the deadline."""
        self.sleep_for(self.seconds(ahead, is_something_free), deadline)

    def sleep_for(self, seconds: float, deadline: float | None) -> None:
        """Wait for this many seconds, but not beyond the deadline."""
        if deadline is not None:
            seconds = min(seconds, deadline - clock.monotonic())
        if seconds > 0:
            self.woken.wait(seconds)
        self.woken.clear()

    def seconds(self, ahead: int, is_something_free: bool) -> float:
        """Return the next pause in seconds; short if a resource is free, since the contenders ahead may have died.

        It is a fifth of the time until this contender is expected to be first, by the queue's speed so far. That of the
        first one grows to 0.2 s.
        """
        self._first = ahead if self._first is None else self._first
        waited = clock.monotonic() - self._began
        turn = (ahead + 1) * waited / (max(self._first - ahead, 0) + 1)
        head = min(max(0.1, waited / 100), 0.2)
        longest = GRACE / 3 if is_something_free else min(head * (ahead + 1), MAX_PAUSE)
        pause = min(0.2 * turn, SHARE_OF_WAIT * waited, longest)
        return max(pause, MIN_PAUSE) * random.uniform(0.8, 1.0)


logger = Log(__name__)

_lock = Lock()
_here: dict[tuple[str, WantedResource], list[Pauses]] = {}
"""By alias and wanted resource, in the order of their places."""


@contextmanager
def standing(alias: str, wanted: WantedResource) -> Iterator[tuple[int, Pauses]]:
    """Take a place in the wait queue for the duration of the block; yield it, and the pauses between two looks."""
    place = Place(alias, reconnecting(alias, lambda: line.enter(alias, wanted, PLACE_TTL)))
    pauses = Pauses()
    key = (alias, wanted)
    renewer.keep(place)
    with _lock:
        _here.setdefault(key, []).append(pauses)
    try:
        yield place.pk, pauses
    finally:
        with _lock:
            _here[key].remove(pauses)
            if not _here[key]:
                del _here[key]
        renewer.drop(place)
        try:
            line.leave(alias, [place.pk])
        except Error as error:  # the place expires by itself; an acquired resource must not be lost because of it
            logger.warning("a place in the wait queue could not be given up: %s", error)


def stand_again(alias: str, wanted: WantedResource, place: int) -> None:
    """Take this place again after it was passed by."""
    reconnecting(alias, lambda: line.enter(alias, wanted, PLACE_TTL, place))


def wake(alias: str, given_back: WantedResource) -> None:
    """Wake the first thread here that wants this resource, which was given back, and was not woken yet."""
    with _lock:
        for wanted in (given_back, WantedResource(given_back.pool)):
            for pauses in _here.get((alias, wanted), ()):
                if not pauses.woken.is_set():
                    pauses.woken.set()
                    return


def _forget() -> None:
    """Reset the state in a forked child: the parent's threads are not in it, and may have held the lock."""
    global _lock
    _lock = Lock()
    _here.clear()


forks.forget_in_child(_forget)


T = TypeVar("T")


def reconnecting(alias: str, work: Callable[[], T]) -> T:
    """Call ``work()``, and once more on a new connection if the present one turns out to be broken.

    A holder may not query the database for hours. ``work`` must be idempotent. Inside a transaction it is not repeated,
    since the earlier statements would be missing.

    Raises:
        Error: the error of the database or its driver.
    """
    used = None
    try:
        used = opened(alias)
        return work()
    except Error:
        if is_current(alias, used):
            raise
        return work()

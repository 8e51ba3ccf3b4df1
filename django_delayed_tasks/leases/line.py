"""The threads of this process that are in a wait queue: they are woken when a resource is given back here."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django.db import Error

from django_delayed_tasks.leases.pauses import Pauses
from django_delayed_tasks.leases.reconnecting import reconnecting
from django_delayed_tasks.leases.renewer import PLACE_TTL, Place, renewer
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.resources.resources import Wanted
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import logger_of

logger = logger_of(__name__)

_lock = Lock()
_here: dict[tuple[str, Wanted], list[Pauses]] = {}
"""By alias and wanted resource, in the order of their places."""


@contextmanager
def standing(alias: str, wanted: Wanted) -> Iterator[tuple[int, Pauses]]:
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


def stand_again(alias: str, wanted: Wanted, place: int) -> None:
    """Take this place again after it was passed by."""
    reconnecting(alias, lambda: line.enter(alias, wanted, PLACE_TTL, place))


def wake(alias: str, given_back: Wanted) -> None:
    """Wake the first thread here that wants this resource, which was given back, and was not woken yet."""
    with _lock:
        for wanted in (given_back, Wanted(given_back.pool)):
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

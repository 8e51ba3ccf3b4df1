"""Those of this process who stand in a line: they are woken when something is given back here."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django_delayed_tasks.leases.pauses import Pauses
from django_delayed_tasks.leases.renewer import PLACE_TTL, Place, renewer
from django_delayed_tasks.store import waiting
from django_delayed_tasks.store.resources import Wanted

_lock = Lock()
_here: dict[tuple[str, str], list[Pauses]] = {}
"""By alias and pool, in the order of their places."""


@contextmanager
def standing(alias: str, wanted: Wanted) -> Iterator[tuple[int, Pauses]]:
    """A place in line, given up at the end, and the pauses between the looks from it."""
    place, pauses = Place(alias, waiting.enter(alias, wanted, PLACE_TTL)), Pauses()
    key = (alias, wanted.pool)
    renewer.keep(place)
    with _lock:
        _here.setdefault(key, []).append(pauses)
    try:
        yield place.pk, pauses
    finally:
        with _lock:
            _here[key].remove(pauses)
        renewer.drop(place)
        waiting.leave(alias, [place.pk])


def wake(alias: str, pool: str) -> None:
    """Something was given back: the first one here who does not know of anything yet looks at once."""
    with _lock:
        for pauses in _here.get((alias, pool), ()):
            if not pauses.woken.is_set():
                pauses.woken.set()
                return

"""``travel``: a clock that a test sets, for the whole app; on time-machine, or on freezegun where that is in use."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException

MISSING = (
    "time-machine, which moves the clocks of a test, is not installed: pip install 'django-delayed-tasks[testing]' "
    "(or call this inside freezegun.freeze_time)"
)
_journeys: list["Journey"] = []
"""The journeys that are under way, the innermost one last."""


class Journey:
    """A clock that stands still until it is moved."""

    def __init__(self, traveller: Any) -> None:
        self._traveller = traveller

    @property
    def now(self) -> datetime:
        """The present."""
        return clock.host_now()

    def move(self, to: datetime | None = None, *, by: timedelta | None = None) -> None:
        """Move the clock ``to`` a moment (an aware datetime), or ``by`` a timedelta."""
        self._traveller.move_to(destination(to, by))


@contextmanager
def travel(to: datetime | None = None, *, by: timedelta | None = None) -> Iterator[Journey]:
    """Let every clock of this process show another time, within a ``with`` block or a decorated function.

    That includes ``timezone.now()``, ``datetime.now()``, and the database's clock as far as this package reads it. The
    clock stands still; the journey that the block gets moves it. ``to`` is an aware datetime, ``by`` a timedelta from
    now; with neither, the clock stops.

    Raises:
        TaskException: time-machine is not installed.
    """
    with _moved(destination(to, by)) as traveller, clock.host_clock():
        journey = Journey(traveller)
        _journeys.append(journey)
        try:
            yield journey
        finally:
            _journeys.remove(journey)


@contextmanager
def under_way() -> Iterator[Journey]:
    """Yield the journey that is under way; without one, stop the clock for the block."""
    if _journeys:
        yield _journeys[-1]
        return
    with travel() as journey:
        yield journey


def destination(to: datetime | None, by: timedelta | None) -> datetime:
    """Return the moment to travel to.

    Raises:
        TypeError: it is not an aware datetime, or ``by`` not a timedelta, or both are given.
    """
    if to is not None and by is not None:
        raise TypeError("travel to a moment or by a timedelta, not both")
    if by is not None:
        return clock.host_now() + by
    if to is None:
        return clock.host_now()
    if not isinstance(to, datetime) or to.utcoffset() is None:
        raise TypeError(f"travel needs an aware datetime, as from timezone.now(), not {to!r}")
    return to.astimezone(UTC)


def _moved(moment: datetime) -> AbstractContextManager[Any]:
    # time-machine moves the clocks below those that freezegun has put in their place.
    if clock.is_stopped():
        return _frozen(moment)
    try:
        import time_machine
    except ImportError:
        raise TaskException(MISSING) from None
    return time_machine.travel(moment, tick=False)


def _frozen(moment: datetime) -> AbstractContextManager[Any]:
    from freezegun import freeze_time

    return freeze_time(moment.replace(tzinfo=None))

"""``travel``: a clock that a test sets, for the whole app; on time-machine, or on freezegun where that is in use."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException

F = TypeVar("F", bound=Callable[..., Any])

MISSING = (
    "time-machine, which moves the clocks of a test, is not installed: pip install 'django-delayed-tasks[testing]' "
    "(or call this inside freezegun.freeze_time)"
)
_NAMELESS = timezone(timedelta(hours=1))
"""Moments are given in a zone without a name: time-machine makes UTC, or a named zone, that of the process."""
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


def travel(to: datetime | None = None, *, by: timedelta | None = None) -> "Travel":
    """Let every clock of this process show another time, within a ``with`` block or a decorated function.

    That includes ``timezone.now()``, ``datetime.now()``, and the database's clock as far as this package reads it. The
    clock stands still; the journey that the block gets moves it. ``to`` is an aware datetime, ``by`` a timedelta from
    now; with neither, the clock stops. The function may be async. The monotonic clock, by which this process measures
    how long something takes, is not moved.

    Raises:
        TaskException: time-machine is not installed.
        TypeError: a class is decorated.
    """
    return Travel(to, by)


class Travel:
    """The result of :func:`travel`."""

    def __init__(self, to: datetime | None, by: timedelta | None) -> None:
        self._destination = to, by
        self._entered = ExitStack()

    def __enter__(self) -> Journey:
        return self._entered.enter_context(_travelling(*self._destination))

    def __exit__(self, *raised: Any) -> None:
        self._entered.__exit__(*raised)

    def __call__(self, function: F) -> F:
        """Decorate a function; each call travels by itself."""
        if isinstance(function, type):
            raise TypeError(f"travel decorates functions, and {function.__qualname__} is a class")

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with _travelling(*self._destination):
                return function(*args, **kwargs)

        @wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            with _travelling(*self._destination):
                return await function(*args, **kwargs)

        return cast(F, acall if iscoroutinefunction(function) else call)


@contextmanager
def _travelling(to: datetime | None, by: timedelta | None) -> Iterator[Journey]:
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
        to = clock.host_now() + by
    elif to is None:
        to = clock.host_now()
    if not isinstance(to, datetime) or to.utcoffset() is None:
        raise TypeError(f"travel needs an aware datetime, as from timezone.now(), not {to!r}")
    return to.astimezone(_NAMELESS)


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

    return freeze_time(moment.astimezone(UTC).replace(tzinfo=None))

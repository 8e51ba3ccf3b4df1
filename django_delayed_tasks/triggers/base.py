"""The base class of all triggers, and the trigger with one time only."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers import values

MAX_TEXT = 500
"""Characters of a trigger's text, for which the column has room."""


class Misfire(StrEnum):
    """The treatment of times that passed while no executor could run the task."""

    COALESCE = "coalesce"
    """One run for all of them, which stands for the latest."""
    SKIP = "skip"
    """No run, unless the latest is within the grace period."""
    CATCH_UP = "catch_up"
    """One run for each, the oldest first, up to a limit."""


@dataclass(frozen=True, repr=False)
class Trigger(ABC):
    """The times at which a task recurs, as a value. ``repr()`` is its canonical text, which ``parse`` reads.

    Attributes:
        start: an aware datetime (or ISO 8601 text); no time is earlier. None: no such bound.
        end: an aware datetime (or ISO 8601 text); no time is later. None: no such bound.
        jitter: the longest random delay added to each time, in seconds or as a timedelta.
        misfire: how missed times are treated: "coalesce", "skip" or "catch_up".
        limit: the largest number of missed times that "catch_up" makes up for, the latest ones; from 1 to 1000.
        grace: how late a run may start, in seconds or as a timedelta; None: a minute for "skip", otherwise no limit.

    Raises:
        InvalidTrigger: a value is not accepted; the message names it.
    """

    start: datetime | None = field(default=None, kw_only=True)
    end: datetime | None = field(default=None, kw_only=True)
    jitter: float | timedelta = field(default=0, kw_only=True)
    misfire: str = field(default=Misfire.COALESCE, kw_only=True)
    limit: int = field(default=100, kw_only=True)
    grace: float | timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._set("start", values.moment("start", self.start))
        self._set("end", values.moment("end", self.end))
        self._set("jitter", values.seconds("jitter", self.jitter))
        self._set("misfire", values.one_of("misfire", self.misfire, Misfire))
        self._set("limit", values.limit("limit", self.limit))
        self._set("grace", None if self.grace is None else values.seconds("grace", self.grace))
        if self.start and self.end and self.end < self.start:
            raise InvalidTrigger("end", self.end, f"is before start={self.start.isoformat()!r}")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def grace_period(self) -> timedelta | None:
        """``grace`` as a timedelta; None if it is not set."""
        return None if self.grace is None else as_timedelta(self.grace)

    @property
    def longest_jitter(self) -> timedelta:
        """``jitter`` as a timedelta."""
        return as_timedelta(self.jitter)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time later than ``moment`` (aware), in UTC; None if there is none."""
        moment = min(max(moment, self._just_before(self.start or values.FIRST)), values.LAST)
        found = self._next(moment.astimezone(UTC))  # arithmetic on datetimes in a zone counts local time
        return None if found is None or found > (self.end or values.LAST) else found.astimezone(UTC)

    def latest_in(self, after: datetime, until: datetime) -> datetime | None:
        """Return the latest time later than ``after`` and not later than ``until``, in UTC; None if there is none."""
        until = values.nearest(min(until, self.end or values.LAST))
        after = min(max(after, self._just_before(self.start or values.FIRST)), values.LAST)
        after = after.astimezone(UTC)  # two datetimes in one zone are compared by local time
        if until <= after:
            return None
        found = self._latest(after, until)
        return None if found is None or found <= after else found.astimezone(UTC)

    @abstractmethod
    def _next(self, moment: datetime) -> datetime | None:
        """Return the first time later than ``moment``, regardless of ``end``."""

    @abstractmethod
    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the latest time not later than ``until``; ``after`` is a time, or the moment before the first one."""

    def _just_before(self, moment: datetime) -> datetime:
        return moment - timedelta(microseconds=1)

    def times(self, after: datetime) -> Iterator[datetime]:
        """Yield all times later than ``after``, ascending, in UTC; endless unless the trigger has an end."""
        moment = self.next_after(after)
        while moment is not None:
            yield moment
            moment = self.next_after(moment)

    def __iter__(self) -> Iterator[datetime]:
        """Yield all times from now on."""
        return self.times(clock.host_now())

    def preview(self, n: int = 10, after: datetime | None = None) -> list[datetime]:
        """Return the next ``n`` times after ``after`` (default: now)."""
        return list(islice(self.times(after or clock.host_now()), n))

    @property
    @abstractmethod
    def description(self) -> str:
        """The trigger in words of the active language: "At 03:00 every day (Europe/Berlin)"."""

    def __repr__(self) -> str:
        arguments = [*self._own_arguments(), *self._common_arguments()]
        return f"{type(self).__name__}({', '.join(arguments)})"

    __str__ = __repr__

    @abstractmethod
    def _own_arguments(self) -> Iterator[str]:
        """Yield the canonical text of the arguments that this kind of trigger adds."""

    def _common_arguments(self) -> Iterator[str]:
        for each in fields(Trigger):
            value = getattr(self, each.name)
            if value != each.default:
                yield f"{each.name}={values.literal(value)}"


def as_timedelta(value: float | timedelta) -> timedelta:
    """Return seconds or a timedelta as a timedelta."""
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


@dataclass(frozen=True, repr=False)
class Once(Trigger):
    """One time, ``when``: an aware datetime, or ISO 8601 text."""

    when: datetime

    def __post_init__(self) -> None:
        super().__post_init__()
        when = values.moment("when", self.when)
        if when is None:
            raise InvalidTrigger("when", None, "expected an aware datetime")
        self._set("when", when)

    def _next(self, moment: datetime) -> datetime | None:
        return self.when if self.when > moment else None

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        return self.when if self.when <= until else None

    @property
    def description(self) -> str:
        return _("Once, at %s") % self.when.isoformat(sep=" ")

    def _own_arguments(self) -> Iterator[str]:
        yield values.literal(self.when)

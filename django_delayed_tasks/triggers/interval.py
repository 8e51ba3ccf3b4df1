"""Intervals of seconds, minutes, hours, days or weeks, in elapsed time, regardless of DST changes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext, pgettext_lazy

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers import values
from django_delayed_tasks.triggers.base import Trigger

MIN_INTERVAL = timedelta(milliseconds=1)
"""The shortest interval: no task runs more often."""
_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
_NAMES = {
    "days": pgettext_lazy("unit of time", "days"),
    "hours": pgettext_lazy("unit of time", "hours"),
    "minutes": pgettext_lazy("unit of time", "minutes"),
    "seconds": pgettext_lazy("unit of time", "seconds"),
}
_ACCEPTED = {"weeks": 7 * 86400, **_UNITS}


class Every(StrEnum):
    """The moment from which the next time is counted."""

    START = "start"
    """The times form a fixed grid, however long a run takes."""
    FINISH = "finish"
    """The interval lies between the end of a run and the start of the next."""


@dataclass(frozen=True, repr=False)
class Interval(Trigger):
    """``Interval(hours=1, minutes=30)``; the sum is at least a millisecond. Weeks are kept as days.

    With ``start`` the times are start, start + interval, ...; without it they are counted from the task's first time,
    which is one interval after the task was added.
    """

    weeks: float = field(default=0, kw_only=True)
    days: float = field(default=0, kw_only=True)
    hours: float = field(default=0, kw_only=True)
    minutes: float = field(default=0, kw_only=True)
    seconds: float = field(default=0, kw_only=True)
    every: str = field(default=Every.START, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("every", values.one_of("every", self.every, Every))
        total = sum(self._number(unit) * length for unit, length in _ACCEPTED.items())
        if not MIN_INTERVAL.total_seconds() <= total <= values.MAX_SPAN.total_seconds():
            raise InvalidTrigger("interval", f"{total:g} seconds", "expected a millisecond to a hundred years")
        # Equal lengths have the same form: Interval(minutes=90) equals Interval(hours=1, minutes=30).
        self._set("weeks", 0)
        left = timedelta(seconds=total)
        for unit, length in _UNITS.items():
            whole = left // timedelta(seconds=length) if length > 1 else _plain(left.total_seconds())
            self._set(unit, whole)
            left -= timedelta(seconds=whole * length)

    def _number(self, unit: str) -> float:
        value: Any = getattr(self, unit)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
            raise InvalidTrigger(unit, value, "expected a number")
        return value

    @property
    def period(self) -> timedelta:
        """The length of the interval."""
        return timedelta(days=self.days, hours=self.hours, minutes=self.minutes, seconds=self.seconds)

    def _next(self, moment: datetime) -> datetime | None:
        try:
            if self.start is None:
                return moment + self.period
            return self.start + ((moment - self.start) // self.period + 1) * self.period
        except OverflowError:
            return None

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        anchor = self.start or after
        return anchor + ((until - anchor) // self.period) * self.period

    @property
    def description(self) -> str:
        parts = [f"{getattr(self, unit)} {_NAMES[unit]}" for unit in _UNITS if getattr(self, unit)]
        period = pgettext("between parts of a duration", ", ").join(parts)
        text = _("Every %s") if self.every == Every.START else _("Every %s, counted from the end of the last run")
        return text % period

    def _own_arguments(self) -> Iterator[str]:
        for unit in _UNITS:
            if value := getattr(self, unit):
                yield f"{unit}={value!r}"
        if self.every != Every.START:
            yield f"every={self.every!r}"


def _plain(number: float) -> float:
    return int(number) if number == int(number) else number

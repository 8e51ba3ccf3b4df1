"""Durations and numbers in words, for messages and pages, and words that agree with a number."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext, pgettext_lazy

_UNITS = (
    (86_400, pgettext_lazy("unit of time", "d")),
    (3_600, pgettext_lazy("unit of time", "h")),
    (60, pgettext_lazy("unit of time", "min")),
    (1, pgettext_lazy("unit of time", "s")),
)


MAX_LISTED = 10
"""Names, tasks or differences that a message lists, and rows of a table in a terminal."""


def duration_text(duration: timedelta) -> str:
    """Return the duration in its two largest units: "3 d 4 h", "5 min 12 s", "0.25 s"."""
    seconds = abs(duration.total_seconds())
    if seconds < 10:
        return seconds_text(f"{seconds:.2f}")
    whole = int(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        if whole >= size or parts:
            parts.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def past_text(when: datetime, now: datetime) -> str:
    """Return a sentence about a task that was given a time in the past, as by a wrong year; "" if it was not.

    A time of the last minute is meant as now.
    """
    if now - when < timedelta(minutes=1):
        return ""
    return _("The task is due at once: its time was %s ago.") % duration_text(now - when)


def number_text(number: float) -> str:
    """Return a number with separators between thousands."""
    return str(number_format(number, force_grouping=True))


def seconds_text(number: str) -> str:
    """Return a number of seconds with its unit: "0.25 s"."""
    unit = pgettext("unit of time", "s")
    return f"{number} {unit}"


def milliseconds_text(seconds: float) -> str:
    """Return a number of seconds as milliseconds: "250 ms"."""
    unit = pgettext("unit of time", "ms")
    return f"{seconds * 1000:.0f} {unit}"


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``one`` if ``count`` is 1, otherwise ``many``; by default that is ``one`` with an s."""
    return one if count == 1 else many or f"{one}s"


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first names, and how many there are besides."""
    more = len(names) - MAX_LISTED
    return separator.join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")

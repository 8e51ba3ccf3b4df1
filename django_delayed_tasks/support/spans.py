"""Spans of time and moments as people write and read them: "90s", "1h 30m", "in 2 days", "2030-01-31 18:00"."""

import re
from datetime import UTC, datetime, time, timedelta
from typing import Final

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from django_delayed_tasks import clock
from django_delayed_tasks.triggers.values import MAX_SPAN

UNITS: Final = {
    "seconds": ("s", "sec", "secs", "second", "seconds", "秒"),
    "minutes": ("m", "min", "mins", "minute", "minutes", "分", "分钟"),
    "hours": ("h", "hour", "hours", "小时"),
    "days": ("d", "day", "days", "天"),
    "weeks": ("w", "week", "weeks", "周"),
}
_NAMES: Final = {name: unit for unit, names in UNITS.items() for name in names}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([^\W\d_]+)[\s,]*")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_LATER = re.compile(r"^(in\s+|\+)|\s*后$", re.IGNORECASE)
_AGO = re.compile(r"\s+ago$|\s*前$", re.IGNORECASE)
EXPECTED = "expected a span of time such as 90s, 1h30m, 7d or '2 weeks'"


def parse_span(text: str) -> timedelta:
    """Return the span that a text like "90s", "1h30m", "-2 days" or "2 weeks" describes, with each unit once.

    Raises:
        ValueError: the text describes no span, or one that is too long.
    """
    words = text.strip().lower()
    sign = -1 if words.startswith("-") else 1
    words = words.removeprefix("-").strip()
    if not _WHOLE.fullmatch(words):
        raise ValueError(f"{text!r}: {EXPECTED}")
    found: dict[str, float] = {}
    for number, name in _PART.findall(words):
        if (unit := _NAMES.get(name)) is None:
            raise ValueError(f"{text!r}: {name!r} is no unit; {EXPECTED}")
        if unit in found:
            raise ValueError(f"{text!r}: has {unit} twice; {EXPECTED}")
        found[unit] = float(number)
    try:
        total = timedelta(**found)
    except OverflowError:
        total = timedelta.max
    if total > MAX_SPAN:
        raise ValueError(f"{text!r}: is more than a hundred years")
    return sign * total


def parse_when(text: str) -> datetime | timedelta | None:
    """Return the moment in a text: None for "now", a span from now, or an aware datetime.

    A span may begin with "in" or "+", and one that ends with "ago" is in the past. A date and time without an offset is
    in the current time zone.

    Raises:
        ValueError: the text describes no moment, or a local time that does not exist or comes twice because clocks
            are changed.
    """
    words = text.strip()
    if words.lower() == "now":
        return None
    if moment := _parse_moment(words):
        return moment
    try:
        return parse_offset(words)
    except ValueError:
        if _WHOLE.search(words.lower()):
            raise
        expected = "expected now, a span such as 30m or '2 hours ago', or a date and time such as '2030-01-31 18:00'"
        raise ValueError(f"{text!r}: {expected}") from None


def parse_offset(text: str) -> timedelta:
    """Return the span from now that a text like "30m", "in 2 days", "+5m" or "2 hours ago" describes.

    Raises:
        ValueError: the text describes no span, or one that is too long.
    """
    later = _LATER.sub("", text.strip())
    before = _AGO.sub("", later)
    if before != later != text.strip():
        raise ValueError(f"{text!r}: is said to be both to come and past; {EXPECTED}")
    span = parse_span(before)
    return span if before == later else -span


def parse_moment(text: str) -> datetime:
    """Return the aware datetime of a text as :func:`parse_when` takes it; spans are counted from this host's clock.

    Raises:
        ValueError: the text describes no moment.
    """
    when = parse_when(text)
    return when if isinstance(when, datetime) else clock.host_now() + (when or timedelta())


def _parse_moment(words: str) -> datetime | None:
    try:
        moment = parse_datetime(words)
        date = None if moment else parse_date(words)
    except ValueError as error:
        raise ValueError(f"{words!r}: {error}") from None
    if date:
        moment = datetime.combine(date, time())
    return _in_current_zone(moment, words) if moment and timezone.is_naive(moment) else moment


def _in_current_zone(wall: datetime, words: str) -> datetime:
    zone = timezone.get_current_timezone()
    first, second = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        moments = [moment.astimezone(UTC) for moment in (first, second)]
        problem = "does not exist" if moments[0] > moments[1] else "comes twice"
        choice = " or ".join(f"'{moment.astimezone(zone)}'" for moment in sorted(moments))
        raise ValueError(f"{words!r}: {problem} in {zone}, where clocks are changed then; write {choice}")
    return first


def local(moment: datetime) -> datetime:
    """Return the moment in the current time zone; in UTC at the ends of the calendar, where local time has none."""
    try:
        return timezone.localtime(moment)
    except (OverflowError, ValueError):
        return moment.astimezone(UTC)

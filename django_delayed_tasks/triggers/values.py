"""Validation and normalization of the arguments of triggers."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from django_delayed_tasks.exceptions import InvalidTrigger

MAX_SPAN = timedelta(days=366 * 100)
"""A hundred years: an interval, the time from now to a task's time, or for which something is kept."""
MAX_CAUGHT_UP = 1000
"""The most missed times that are made up for: each catch-up run computes all of them."""
FIRST = datetime(1000, 1, 2, tzinfo=UTC)
LAST = datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC)
"""The first and the last moment that are accepted: every database can store them, and every time zone show them."""
OUT_OF_RANGE = (
    f"is out of range: from {FIRST:%Y-%m-%d} to {LAST:%Y-%m-%d} in UTC, which every database can store and every time"
    " zone can show"
)


def is_in_range(moment: datetime) -> bool:
    """Return whether an aware datetime is accepted as a moment; of all values that become one, this is the rule."""
    return FIRST <= moment <= LAST


def nearest(moment: datetime) -> datetime:
    """Return the moment in UTC if it is accepted, else the first or the last one that is."""
    return min(max(moment, FIRST), LAST).astimezone(UTC)


def moment(name: str, value: Any) -> datetime | None:
    """Return an aware datetime, or ISO 8601 text, as a datetime in UTC; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidTrigger(name, value, "is not a moment in ISO 8601") from None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidTrigger(name, value, "expected an aware datetime")
    if not is_in_range(value):
        raise InvalidTrigger(name, value, OUT_OF_RANGE)
    return value.astimezone(UTC)


def seconds(name: str, value: Any) -> float:
    """Return a number of seconds, or a timedelta, as seconds of at least 0."""
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise InvalidTrigger(name, value, "expected seconds or a timedelta")
    if not 0 <= given <= MAX_SPAN.total_seconds():
        raise InvalidTrigger(name, value, "expected at least 0 and at most a hundred years")
    return int(given) if given == int(given) else float(given)


def limit(name: str, value: Any) -> int:
    """Return the value, a number of missed times to make up for, if it is from 1 to :data:`MAX_CAUGHT_UP`."""
    if type(value) is not int or value < 1:
        raise InvalidTrigger(name, value, "expected an int of at least 1")
    if value > MAX_CAUGHT_UP:
        raise InvalidTrigger(name, value, f"expected at most {MAX_CAUGHT_UP}: each run computes that many times")
    return value


def one_of(name: str, value: Any, words: Iterable[str]) -> str:
    """Return the value if it is one of these words."""
    known = [str(word) for word in words]
    if not isinstance(value, str) or value not in known:
        raise InvalidTrigger(name, value, f"expected one of {', '.join(known)}")
    return str(value)


def literal(value: Any) -> str:
    """Return the value as it is written in a trigger's text."""
    return repr(value.isoformat()) if isinstance(value, datetime) else repr(value)

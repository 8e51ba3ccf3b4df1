"""Validation of arguments, before anything is written."""

from datetime import timedelta
from typing import Any, Final

from django_delayed_tasks import conf
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import NAME_LENGTH, POOL_LENGTH
from django_delayed_tasks.store.resources.resources import RESERVED
from django_delayed_tasks.store.validation import valid_text

SHORTEST_TTL: Final = 0.1


def valid_name(value: Any, field: str = "name") -> str:
    """Return the value if it is a string of 1 to 150 characters."""
    return valid_text(field, value, NAME_LENGTH)


def valid_pool(value: Any) -> str:
    """Return the value if it is a string of 1 to 50 characters that does not start with "ddt."."""
    name = valid_text("pool", value, POOL_LENGTH)
    if name.startswith(RESERVED):
        raise InvalidTask("pool", value, f"names that start with {RESERVED!r} are reserved")
    return name


def valid_ttl(value: Any) -> timedelta:
    """Return a timedelta from 0.1 s to 366 days, given in seconds or as a timedelta."""
    return timedelta(seconds=_seconds("ttl", value, SHORTEST_TTL))


def valid_at_least(value: Any) -> timedelta:
    """Return a timedelta from 0 to 366 days, given in seconds or as a timedelta."""
    return timedelta(seconds=_seconds("at_least", value, 0))


def valid_wait(value: Any) -> float | None:
    """Return seconds from 0 to 366 days, given in seconds or as a timedelta; None is without limit."""
    return None if value is None else _seconds("wait", value, 0)


def valid_quarantine(value: Any) -> timedelta:
    """Return a timedelta from 0 to 366 days, given in seconds or as a timedelta."""
    return timedelta(seconds=_seconds("quarantine", value, 0))


def _seconds(field: str, value: Any, least: float) -> float:
    try:
        seconds = conf.as_seconds(value)
    except ValueError as error:
        raise InvalidTask(field, value, str(error)) from None
    if not least <= seconds <= conf.LONGEST_SECONDS:
        raise InvalidTask(field, value, f"must be from {least:g} s to 366 days")
    return seconds

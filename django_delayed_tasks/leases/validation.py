"""Validation of arguments, before anything is written."""

import inspect
import math
from datetime import timedelta
from typing import Any, Final

from django_delayed_tasks import conf
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.fields import RESERVED_POOLS
from django_delayed_tasks.models import NAME_LENGTH, POOL_LENGTH
from django_delayed_tasks.store.validation import seen_text, valid_json, valid_text

MIN_TTL: Final = 0.1
"""Seconds of the shortest lease, whose renewals are thirty statements a second."""


def valid_name(value: Any, field: str = "name") -> str:
    """Return the value if it is a string of 1 to 150 characters, all of which are seen."""
    return seen_text(field, valid_text(field, value, NAME_LENGTH))


def valid_pool(value: Any) -> str:
    """Return the value if it is a string of 1 to 50 characters, all of which are seen; names with "ddt." are ours."""
    name = seen_text("pool", valid_text("pool", value, POOL_LENGTH))
    if name.startswith(RESERVED_POOLS):
        raise InvalidTask("pool", value, f"names that start with {RESERVED_POOLS!r} are reserved")
    return name


def valid_ttl(value: Any) -> timedelta:
    """Return a timedelta from 0.1 s to 366 days, given in seconds or as a timedelta."""
    return timedelta(seconds=_seconds("ttl", value, MIN_TTL))


def valid_at_least(value: Any) -> timedelta:
    """Return a timedelta from 0 to 366 days, given in seconds or as a timedelta."""
    return timedelta(seconds=_seconds("at_least", value, 0))


def valid_at_most(value: Any, at_least: timedelta = timedelta(0)) -> float:
    """Return seconds from 0.1 to 366 days, but not less than ``at_least``; None is without limit."""
    if value is None:
        return math.inf
    seconds = _seconds("at_most", value, MIN_TTL)
    if seconds < at_least.total_seconds():
        raise InvalidTask("at_most", value, f"must not be less than at_least, {at_least.total_seconds():g} s")
    return seconds


def valid_wait(value: Any) -> float | None:
    """Return seconds from 0 to 366 days, given in seconds or as a timedelta; None is without limit."""
    return None if value is None else _seconds("wait", value, 0)


def valid_callback(field: str, value: Any) -> Any:
    """Return the value if it is None, or can be called and does not return a coroutine, which would count as true."""
    if value is None or (callable(value) and not inspect.iscoroutinefunction(value)):
        return value
    raise InvalidTask(field, value, "must be a function, and not an async one")


def valid_quarantine(value: Any) -> timedelta:
    """Return a timedelta from 0 to 366 days, given in seconds or as a timedelta."""
    return timedelta(seconds=_seconds("quarantine", value, 0))


def valid_state(state: Any) -> str:
    """Return the state as JSON text."""
    if not isinstance(state, dict):
        raise InvalidTask("state", state, "must be a dict")
    return valid_json(state, conf.settings.MAX_BIZ_EXT_BYTES, "state") or "{}"


def _seconds(field: str, value: Any, least: float) -> float:
    try:
        seconds = conf.as_seconds(value)
    except ValueError as error:
        raise InvalidTask(field, value, str(error)) from None
    if not least <= seconds <= conf.MAX_SECONDS:
        raise InvalidTask(field, value, f"must be from {least:g} s to 366 days")
    return seconds

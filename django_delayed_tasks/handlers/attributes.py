"""The readers of a handler's attributes: each returns a value that is accepted, or raises ValueError.

They stand with the attributes in ``base.py``; ``validation.py`` applies them.
"""

import re
from collections.abc import Collection
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from django_delayed_tasks.conf import Reader
from django_delayed_tasks.exceptions import InvalidTrigger, shortened
from django_delayed_tasks.fields import POOL_LENGTH, QUEUE_LENGTH, RESERVED_POOLS
from django_delayed_tasks.states import KeepHistory
from django_delayed_tasks.triggers import Trigger, parse
from django_delayed_tasks.triggers.values import MAX_SPAN

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_STARTS: Final = 10_000
"""The most starts in one period of a rate: each start keeps a row for that long."""
MAX_PERIOD: Final = timedelta(days=31)
"""The longest period of a rate: a month."""
_FORM: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{0,9})\s*([smhd])\s*")


_OF_CELERY: Final = {
    "max_retries": ("max_attempts",),
    "retries": ("max_attempts",),
    "rate_limit": ("rate",),
    "time_limit": ("timeout",),
    "soft_time_limit": ("timeout",),
    "default_retry_delay": ("backoff",),
    "retry_backoff": ("backoff",),
    "autoretry_for": ("backoff_after", "backoff"),
}
"""The options of Celery and of other queues, each with the options of this library that take its place."""


def meant_by(name: str, known: Collection[str], cutoff: float = 0.6) -> str | None:
    """Return which of the known names was probably meant: one that takes the name's place, or the closest; or None."""
    ours = [one for one in _OF_CELERY.get(name, ()) if one in known]
    return next(iter(ours or get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def text_up_to(length: int) -> Reader:
    """Return the reader of a printable text of at most this length."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError(f"expected a string of 1 to {length} characters")
        if len(value) > length:
            raise ValueError(f"is {len(value)} characters long; {length} at most")
        if not value.isprintable() or value != value.strip():
            raise ValueError("expected printable characters, and no space at either end")
        return value

    return read


queue_name = text_up_to(QUEUE_LENGTH)


def trigger(value: Any) -> Trigger | None:
    """Return the trigger, that of a text, or None."""
    if value is None or isinstance(value, Trigger):
        return value
    if not isinstance(value, str):
        raise ValueError("expected a trigger, such as Cron('0 3 * * *'), or its text")
    try:
        return parse(value)
    except InvalidTrigger as error:
        raise ValueError(str(error).removeprefix(f"trigger={shortened(value)}: ")) from None


def history_kept(value: Any) -> Any:
    """Return the value of ``keep_history``."""
    kinds = [str(kind) for kind in KeepHistory]
    if not (timedelta() < value <= MAX_SPAN if isinstance(value, timedelta) else value in kinds):
        raise ValueError(f"expected one of {', '.join(kinds)}, or a timedelta above zero")
    return value


def pool(value: Any) -> str:
    """Return the name of a pool."""
    if isinstance(value, str) and value.startswith(RESERVED_POOLS):
        raise ValueError(f"names that start with {RESERVED_POOLS} are reserved")
    name: str = text_up_to(POOL_LENGTH)(value)
    return name


class Rate(NamedTuple):
    """The number of starts allowed in any period of the given length."""

    starts: int
    period: timedelta


def parse_rate(text: str) -> Rate:
    """Parse a rate: ``"100/m"`` is a hundred in any minute, ``"5/10s"`` five in any ten seconds.

    The units are s, m, h and d.

    Raises:
        ValueError: the text is not a valid rate; the message says what was expected.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError('expected a string such as "100/m" or "5/10s", with s, m, h or d')
    starts, period = int(found[1]), timedelta(seconds=int(found[2] or 1) * _UNITS[found[3]])
    if not 1 <= starts <= MAX_STARTS:
        raise ValueError(f"expected 1 to {MAX_STARTS} starts in a period; choose a shorter period for a higher rate")
    if not timedelta() < period <= MAX_PERIOD:
        raise ValueError(f"expected a period above 0 and of at most {MAX_PERIOD.days} days")
    return Rate(starts, period)

"""The readers of a handler's attributes: each returns a value that is accepted, or raises ValueError.

They stand with the attributes in ``base.py``; ``validation.py`` applies them.
"""

from datetime import timedelta
from typing import Any

from django_delayed_tasks.conf import Reader
from django_delayed_tasks.exceptions import InvalidTrigger, shortened
from django_delayed_tasks.fields import POOL_LENGTH, QUEUE_LENGTH, RESERVED_POOLS
from django_delayed_tasks.states import KeepHistory
from django_delayed_tasks.triggers import Trigger, parse
from django_delayed_tasks.triggers.values import MAX_SPAN


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

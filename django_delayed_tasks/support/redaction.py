"""Values that nobody is to see: those of the keys that ``DELAYED_TASKS["REDACT"]`` names, wherever in the JSON.

They are hidden where data is shown (admin, logs, messages of errors), never in the database. A form shows a mask with a
number instead of each; what is saved from it gets the value of that number back, if it is still under a key that hides.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import shortened

MASK = "********"
DEEPEST = 100
"""Levels that are looked through; what is deeper is hidden as a whole."""

_NUMBERED = re.compile(rf"{re.escape(MASK)} ?(\d{{0,9}})")
Hide = Callable[[Any], Any]


class MisplacedMask(ValueError):
    """A mask stands where no value can be put back."""

    def __init__(self, mask: str) -> None:
        super().__init__(f"{mask!r} stands for a hidden value, but not here: leave it under its key, or type a value")


def redacted(value: Any) -> Any:
    """A copy of the value in which hidden ones are masks; the value itself when nothing is to be hidden."""
    return _without(value, lambda secret: MASK)


def numbered(value: Any) -> Any:
    """As :func:`redacted`, with masks that :func:`restored` can tell apart."""
    count = 0

    def hide(secret: Any) -> str:
        nonlocal count
        count += 1
        return f"{MASK} {count}"

    return _without(value, hide)


def restored(edited: Any, original: Any) -> Any:
    """What ``numbered(original)`` was edited to, with the values of ``original`` where its masks still stand.

    Raises:
        MisplacedMask: a mask stands under a key that would show the value, or has no value.
    """
    if not settings.REDACT:
        return edited
    secrets: list[Any] = []
    _without(original, secrets.append)
    return _restored(edited, secrets, is_hidden=False)


def _restored(value: Any, secrets: list[Any], is_hidden: bool) -> Any:
    if isinstance(value, dict):
        return {key: _restored(inner, secrets, is_hidden or _hides(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_restored(inner, secrets, is_hidden) for inner in value]
    if not isinstance(value, str) or not (mask := _NUMBERED.fullmatch(value)):
        return value
    number = int(mask[1] or 0)
    if not is_hidden or not 1 <= number <= len(secrets):
        raise MisplacedMask(value)
    return secrets[number - 1]


def shown(value: Any, limit: int = 80) -> str:
    """``repr(value)`` for logs and messages: redacted, cut to ``limit`` characters, whatever the value is."""
    if not settings.REDACT:
        return shortened(value, limit)
    try:
        if is_dataclass(value) and not isinstance(value, type):
            inside = ", ".join(f"{field.name}={redacted(getattr(value, field.name))!r}" for field in fields(value))
            text = f"{type(value).__name__}({inside})"
        else:
            text = repr(redacted(value))
    except Exception:  # a foreign __repr__
        text = object.__repr__(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _without(value: Any, hide: Hide) -> Any:
    return _walked(value, hide, frozenset()) if settings.REDACT else value


def _walked(value: Any, hide: Hide, around: frozenset[int]) -> Any:
    """``around`` are the containers that this value is in: more of them than DEEPEST, or itself, is hidden."""
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) in around or len(around) >= DEEPEST:
        return hide(value)
    around |= {id(value)}
    if isinstance(value, dict):
        return {key: hide(inner) if _hides(key) else _walked(inner, hide, around) for key, inner in value.items()}
    return [_walked(inner, hide, around) for inner in value]


def _hides(key: Any) -> bool:
    return isinstance(key, str) and key.casefold() in settings.REDACT

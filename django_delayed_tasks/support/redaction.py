"""Redaction: hiding the values of the keys named in ``DELAYED_TASKS["REDACT"]``, at any depth of the JSON.

The positional arguments of a function's task have no names in its data, so they are hidden as a whole. The function's
parameters would name them, but only in a process that has imported it, and not if a decorator passes others on.

Values are hidden where data is shown (admin, logs, error messages), never in the database. A form shows a numbered mask
in place of each hidden value. When the form is saved, each mask that is still under a redacted key is replaced by the
value of its number.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import shortened
from django_delayed_tasks.outcomes import Unchanged

MASK = "********"
FUNCTION, ARGS, KWARGS = "function", "args", "kwargs"
"""The keys in the data of a function's task: of its path, of its positional and of its keyword arguments."""
MAX_DEPTH = 31
"""The levels of nested lists and objects that MariaDB can store; MySQL can store 100. What is nested deeper is hidden
as a whole."""

_SHOWN = (str, bytes, int, float, complex, Decimal, date, time, timedelta, UUID, Unchanged, type, type(None))
_NUMBERED = re.compile(rf"{re.escape(MASK)} ?(\d{{0,9}})")
Hide = Callable[[Any], Any]


class MisplacedMask(ValueError):
    """A mask is in a place where no value can be put back."""

    def __init__(self, mask: str) -> None:
        super().__init__(f"{mask!r} stands for a hidden value, but not here: leave it under its key, or enter a value")


def redacted(value: Any) -> Any:
    """Return a copy of the value with masks for hidden values; the value itself if there are no keys to redact."""
    return _without(value, lambda secret: MASK)


def numbered(value: Any) -> Any:
    """Redact as :func:`redacted` does, with numbered masks that :func:`restored` can tell apart."""
    count = 0

    def hide(secret: Any) -> str:
        nonlocal count
        count += 1
        return f"{MASK} {count}"

    return _without(value, hide)


def restored(edited: Any, original: Any) -> Any:
    """Return an edited ``numbered(original)`` with the values of ``original`` in place of the remaining masks.

    Raises:
        MisplacedMask: a mask is under a key that would show the value, or its number stands for no value.
    """
    if not settings.REDACT:
        return edited
    secrets: list[Any] = []
    _without(original, secrets.append)
    return _restored(edited, secrets, is_hidden=False)


def _restored(value: Any, secrets: list[Any], is_hidden: bool) -> Any:
    if isinstance(value, dict):
        return {key: _restored(inner, secrets, is_hidden or _hides(key, value)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_restored(inner, secrets, is_hidden) for inner in value]
    if not isinstance(value, str) or not (mask := _NUMBERED.fullmatch(value)):
        return value
    number = int(mask[1] or 0)
    if not is_hidden or not 1 <= number <= len(secrets):
        raise MisplacedMask(value)
    return secrets[number - 1]


def shown(value: Any, limit: int = 80) -> str:
    """Return ``repr(value)`` for logs and messages: redacted, cut to ``limit`` characters, whatever the value is.

    If there are keys to redact, an object that is not data, an outcome or a container is shown only as its type, since
    its ``__repr__`` may reveal anything.
    """
    if not settings.REDACT:
        return shortened(value, limit)
    try:
        text = repr(redacted(_opened(value, frozenset())))
    except Exception:  # from the value's own methods
        text = object.__repr__(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown_at(path: Iterable[Any], value: Any) -> tuple[list[Any], str]:
    """Return the keys that lead to a part of the value, and the part as :func:`shown` does.

    The keys end at the first one whose value is hidden.
    """
    keys: list[Any] = []
    for key in path:
        keys.append(key)
        if isinstance(value, dict) and _hides(key, value):
            return keys, MASK
        value = value[key]
    return keys, shown(value)


class _Text(str):
    """A text that is its own ``repr``."""

    __slots__ = ()

    __repr__ = str.__str__


def _opened(value: Any, around: frozenset[int]) -> Any:
    """Return the value with dicts and lists in place of other containers, and texts in place of other objects."""
    if isinstance(value, _SHOWN):
        return value
    if id(value) in around or len(around) >= MAX_DEPTH:
        return MASK
    around |= {id(value)}
    if isinstance(value, Mapping):
        return {_key(key, around): _opened(inner, around) for key, inner in value.items()}
    if is_dataclass(value):
        return _called(value, [field.name for field in fields(value)], around)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _called(value, value._fields, around)
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_opened(inner, around) for inner in value]
    return _Text(object.__repr__(value))


def _key(key: Any, around: frozenset[int]) -> Any:
    return key if isinstance(key, _SHOWN) else _Text(repr(_opened(key, around)))


def _called(value: Any, names: Iterable[str], around: frozenset[int]) -> str:
    inside = redacted({name: _opened(getattr(value, name), around) for name in names})
    return _Text(f"{type(value).__name__}({', '.join(f'{name}={inner!r}' for name, inner in inside.items())})")


def _without(value: Any, hide: Hide) -> Any:
    return _walked(value, hide, frozenset()) if settings.REDACT else value


def _walked(value: Any, hide: Hide, around: frozenset[int]) -> Any:
    """Return the value with hidden values replaced; ``around`` are the containers that it is in.

    Values nested deeper than MAX_DEPTH, or containing themselves, are hidden.
    """
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) in around or len(around) >= MAX_DEPTH:
        return hide(value)
    around |= {id(value)}
    if isinstance(value, dict):
        return {
            key: hide(inner) if _hides(key, value) else _walked(inner, hide, around) for key, inner in value.items()
        }
    return [_walked(inner, hide, around) for inner in value]


def _hides(key: Any, within: dict[Any, Any]) -> bool:
    if key == ARGS and within[ARGS] and (FUNCTION in within or KWARGS in within):
        return True
    return isinstance(key, str) and key.casefold() in settings.REDACT

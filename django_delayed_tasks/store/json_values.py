"""The values that every database stores as JSON and returns unchanged; for others, the part that is to blame."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Set
from datetime import date, time
from typing import Any, NamedTuple

from django.db.models import Model, QuerySet

from django_delayed_tasks.store.sql.charsets import unstorable
from django_delayed_tasks.support.redaction import MAX_DEPTH, shown

INTEGERS = range(-(2**63), 2**64)
"""The integers that MySQL stores exactly; it turns others into floats."""

_TEXT = frozenset({str})
_SIMPLE = frozenset({str, int, bool, float, type(None)})
_SUSPECT = re.compile(r"\\u0000|\d{19}")


class Culprit(NamedTuple):
    """The part of a value that is refused: the keys that lead to it, and what is wrong with it."""

    path: tuple[Any, ...]
    problem: str


def is_plain(value: Any, text: str) -> bool:
    """Return whether the value, written as the JSON ``text``, needs no further look; False if it may."""
    # In the text, \u0000 is a NUL or an escaped backslash before "u0000", and digits may be part of a string.
    if text.count("[") + text.count("{") > MAX_DEPTH or _SUSPECT.search(text) or unstorable(text):
        return False
    return _is_flat(value) or bool(json.loads(text) == value)


def _is_flat(value: Any) -> bool:
    """Return whether this is a dict of texts to simple values, as most are."""
    return type(value) is dict and _TEXT.issuperset(map(type, value)) and _SIMPLE.issuperset(map(type, value.values()))


def culprit_in(value: Any) -> Culprit | None:
    """Return the first part of the value that is refused; None if there is none."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while waiting:
        path, part = waiting.pop()
        if len(path) >= MAX_DEPTH and isinstance(part, dict | list | tuple):
            return Culprit((), f"is nested deeper than {MAX_DEPTH} levels, which databases cannot store")
        if problem := _problem_of(part):
            return Culprit(path, problem)
        waiting += reversed([((*path, key), inner) for key, inner in _inside(part)])
    return None


def _inside(part: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(part, dict):
        return part.items()
    return enumerate(part) if isinstance(part, list | tuple) else ()


def _problem_of(part: Any) -> str | None:
    match part:
        case str():
            return unstorable(part)
        case int():
            if part not in INTEGERS:
                return "contains an integer beyond 64 bits, which databases cannot store exactly; pass it as a str"
        case float():
            if not math.isfinite(part):
                return "is not JSON; pass None instead"
        case dict():
            return next(filter(None, map(_problem_of_key, part)), None)
        case list() | tuple() | None:
            return None
        case _:
            return f"is not JSON; {_cure_of(part)}"
    return None


def _cure_of(part: Any) -> str:
    match part:
        case Model():
            return "pass its pk"
        case QuerySet():
            return "pass a list of what the task needs, such as the pks"
        case bytes() | bytearray():
            return "pass a text, as with .decode()"
        case Set() | Iterator():
            return "convert it first, as with list()"
        case date() | time():
            return "pass its isoformat()"
    return "convert it first, as with str()"


def _problem_of_key(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"has a key that is not a str, {shown(key)}, which JSON would turn into one; convert it first"
    problem = unstorable(key)
    return problem and f"has the key {shown(key)}, which {problem}"

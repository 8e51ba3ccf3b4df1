"""Limits of JSON: values that one of the databases would refuse or would not return unchanged."""

import json
import re
from typing import Any

DEEPEST = 31
"""The levels of nested lists and objects that MariaDB can store; MySQL can store 100."""

INTEGERS = range(-(2**63), 2**64)
"""The integers that MySQL stores exactly; it turns others into floats."""

_TEXT = frozenset({str})
_SIMPLE = frozenset({str, int, bool, float, type(None)})
_SUSPECT = re.compile(r"\\u0000|\d{19}")


def problem_of(value: Any, text: str) -> str | None:
    """Return what is wrong with the JSON ``value`` that is written ``text``; None if nothing is wrong."""
    # In the text, \u0000 is a NUL or an escaped backslash before "u0000", and digits may be part of a string, so a
    # suspicious text needs a look at the values.
    is_plain = text.count("[") + text.count("{") <= DEEPEST and not _SUSPECT.search(text)
    if is_plain and (_is_flat(value) or json.loads(text) == value):
        return None
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if problem := _problem_of_one(item, depth):
            return problem
        if isinstance(item, dict):
            waiting += [(inner, depth + 1) for inner in (*item.keys(), *item.values())]
        elif isinstance(item, list | tuple):
            waiting += [(inner, depth + 1) for inner in item]
    return None


def _is_flat(value: Any) -> bool:
    """Return whether this is a dict of texts to simple values, as most are: no two keys are written alike."""
    return type(value) is dict and _TEXT.issuperset(map(type, value)) and _SIMPLE.issuperset(map(type, value.values()))


def _problem_of_one(item: Any, depth: int) -> str | None:
    if isinstance(item, str) and "\0" in item:
        return "contains a NUL character, which databases cannot store"
    if isinstance(item, int) and item not in INTEGERS:
        return "contains an integer beyond 64 bits, which databases cannot store exactly; pass it as a str"
    if isinstance(item, dict) and len(json.loads(json.dumps(dict.fromkeys(item)))) < len(item):
        return "has two keys that are the same when they are written as text"
    if isinstance(item, dict | list | tuple) and depth >= DEEPEST:
        return f"is nested deeper than {DEEPEST} levels, which databases cannot store"
    return None

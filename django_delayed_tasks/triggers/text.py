"""The text of a trigger, as it is stored in a row and edited in the admin: the call that creates the trigger.

Python's own parser reads it, and it is never executed: it is one of three names with literal arguments.
"""

import ast
from contextlib import suppress
from datetime import datetime
from typing import Any

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers.base import MAX_TEXT, Once, Trigger
from django_delayed_tasks.triggers.cron import Cron
from django_delayed_tasks.triggers.interval import Interval
from django_delayed_tasks.triggers.values import MAX_CAUGHT_UP, nearest

_KINDS: dict[str, type[Trigger]] = {kind.__name__: kind for kind in (Once, Interval, Cron)}
EXAMPLE = (
    "expected for example Cron('0 3 * * *', tz='Europe/Berlin'), Interval(minutes=30) or Once('2027-01-01T00:00+00:00')"
)


def parse(text: str) -> Trigger:
    """Parse the text of a trigger.

    Raises:
        InvalidTrigger: the text is not that of a trigger.
    """
    return _parse(text)


def parse_stored(text: str) -> Trigger:
    """Parse the text in a row. Unlike :func:`parse`, bring values that an earlier release accepted into range.

    These are a larger ``limit``, and moments in the first and the last day of the calendar that databases have.
    """
    return _parse(text, is_stored=True)


def _parse(text: str, *, is_stored: bool = False) -> Trigger:
    if not isinstance(text, str):
        raise InvalidTrigger("trigger", text, EXAMPLE)
    if len(text) > MAX_TEXT:
        raise InvalidTrigger("trigger", text, f"expected a string of at most {MAX_TEXT} characters")
    call = _call(text)
    arguments = [_literal(text, argument) for argument in call.args]
    if len({keyword.arg for keyword in call.keywords}) < len(call.keywords):
        raise InvalidTrigger("trigger", text, "an argument is given twice")
    options = {_name(text, keyword.arg): _literal(text, keyword.value) for keyword in call.keywords}
    if is_stored:
        arguments, options = [_in_range(value) for value in arguments], {k: _in_range(v) for k, v in options.items()}
        if type(options.get("limit")) is int:
            options["limit"] = min(options["limit"], MAX_CAUGHT_UP)
    try:
        return _KINDS[call.func.id](*arguments, **options)  # type: ignore[attr-defined]
    except TypeError as error:
        raise InvalidTrigger("trigger", text, f"{error}") from None


def _call(text: str) -> ast.Call:
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidTrigger("trigger", text, EXAMPLE) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in _KINDS:
        raise InvalidTrigger("trigger", text, EXAMPLE)
    return call


def _literal(text: str, node: ast.expr) -> Any:
    value: Any = node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, int | float):
            return -value
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str | int | float | None):
        raise InvalidTrigger("trigger", text, "expected literal strings and numbers as arguments")
    return node.value


def _in_range(value: Any) -> Any:
    """Return the text of a moment as the nearest moment that is accepted; any other value as it is."""
    with suppress(TypeError, ValueError):
        return nearest(datetime.fromisoformat(value))
    return value


def _name(text: str, name: str | None) -> str:
    if name is None:
        raise InvalidTrigger("trigger", text, EXAMPLE)
    return name

"""The data of a function task: which function to call with which arguments, and what its result repeats."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.dateparse import parse_datetime

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, InvalidTrigger
from django_delayed_tasks.function_tasks.families import Family
from django_delayed_tasks.function_tasks.ids import moment_in
from django_delayed_tasks.handlers.functions import USING
from django_delayed_tasks.support.redaction import ARGS, FUNCTION, KWARGS
from django_delayed_tasks.triggers import Trigger, parse_stored

ARGUMENTS = "arguments"
"""The name of the arguments in errors about them."""
USABLE = ("priority", "queue_name", "backend", "run_after", "biz_num", "once", "trigger", "expires")
"""The attributes of a task that ``using`` can change, as far as it has these."""
_MOMENTS = ("run_after", "expires")


class EnqueuedCall(NamedTuple):
    """One enqueuing of a function. A task that was not enqueued, such as a recurring one, has no ``enqueued_at``.

    The number of a task without a business identity says when it was enqueued. The data does not repeat that: it is
    copied to the history, and shorter data is copied faster.

    ``using`` is what the caller has changed about the function's task, with moments in place of timedeltas.
    """

    function: str
    args: list[Any]
    kwargs: dict[str, Any]
    enqueued_at: datetime | None
    using: dict[str, Any]

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


def of_code(code: str) -> EnqueuedCall:
    """Return an enqueuing of which only the code is known: the function's path, if that is not too long."""
    return EnqueuedCall(code, [], {}, None, {})


def written(enqueued: EnqueuedCall, biz_num: str) -> str:
    """Return the data of the task of this number as JSON text.

    Raises:
        InvalidTask: the arguments contain what a database could not store, or would not return unchanged.
    """
    from django_delayed_tasks.store.validation import valid_json  # loads the models

    data: dict[str, Any] = {FUNCTION: enqueued.function, ARGS: enqueued.args, KWARGS: enqueued.kwargs}
    if enqueued.enqueued_at and enqueued.enqueued_at != moment_in(biz_num):
        data["enqueued_at"] = enqueued.enqueued_at.isoformat()
    if using := {name: _text_of(value) for name, value in enqueued.using.items()}:
        data[USING] = using
    text = valid_json(data, settings.MAX_BIZ_EXT_BYTES, ARGUMENTS)
    assert text is not None
    return text


def read(data: Any, function: str, biz_num: str = "") -> EnqueuedCall:
    """Return the call in the data of a task of ``function``, without parts that are missing or of another type."""
    found = data if isinstance(data, dict) else {}
    using = found.get(USING)
    return EnqueuedCall(
        function,
        *arguments_in(found),
        _moment(found.get("enqueued_at")) or moment_in(biz_num),
        _read_using(using) if isinstance(using, dict) else {},
    )


def arguments_in(data: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments in the data of a task."""
    found = data if isinstance(data, dict) else {}
    args, kwargs = found.get(ARGS), found.get(KWARGS)
    return list(args) if isinstance(args, list) else [], dict(kwargs) if isinstance(kwargs, dict) else {}


def _read_using(using: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in using.items() if name in USABLE}
    return {name: _value_of(name, value) for name, value in known.items()}


def _value_of(name: str, value: Any) -> Any:
    if name == "trigger":
        with suppress(InvalidTrigger):
            return parse_stored(value)
    return _moment(value) if name in _MOMENTS else value


def _text_of(value: Any) -> Any:
    if isinstance(value, Trigger):
        return str(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _moment(text: Any) -> datetime | None:
    with suppress(ValueError):  # such as the 32nd of a month
        return parse_datetime(text) if isinstance(text, str) else None
    return None


def normalized(family: Family, field: str, value: Any) -> Any:
    """Return a value as the framework turns it into JSON.

    Raises:
        TypeError, ValueError: the framework refuses it.
        InvalidTask: it is nested too deeply.
    """
    try:
        return family.normalize_json(value)
    except RecursionError:
        raise InvalidTask(field, value, "is not JSON: nested too deeply", "(too deep)") from None

"""The rules for the single values that callers pass; ``acceptance.py`` applies them to a task before it is written."""

import json
import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.fields import in_full
from django_delayed_tasks.models import CODE_LENGTH, NUM_LENGTH, QUEUE_LENGTH
from django_delayed_tasks.store.json_values import Culprit, culprit_in, is_plain
from django_delayed_tasks.store.sql.charsets import unstorable, without_unstorable
from django_delayed_tasks.support.redaction import shown, shown_at
from django_delayed_tasks.support.visible import unseen_in
from django_delayed_tasks.triggers import Trigger, parse
from django_delayed_tasks.triggers.values import MAX_SPAN, OUT_OF_RANGE, is_in_range

PRIORITIES = range(-100, 101)

When = datetime | timedelta | None


def absolute(moment: When, now: datetime) -> datetime:
    """Return the moment that a caller means: a timedelta counts from ``now``, as None does."""
    return moment if isinstance(moment, datetime) else now + (moment or timedelta())


class Schedule(NamedTuple):
    """A task as it will be written: valid, with the handler's defaults filled in."""

    biz_code: str
    biz_num: str
    when: When
    biz_ext: str | None
    queue: str
    priority: int
    trigger_text: str | None = None
    expires_at: When = None
    once: bool | None = None
    claim_at: datetime | None = None
    """The moment from which the task may be claimed, if that is later than ``when``."""
    lane: str = ""
    trace: str | None = None
    """The trace that the caller was in, as a ``traceparent``."""

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


def valid_identity(biz_code: Any, biz_num: Any) -> tuple[str, str]:
    """Return both halves of an identity; a number that is an int or a UUID, as its text.

    Raises:
        InvalidTask: a half has another type, is empty or too long, or contains what a database would not return
            unchanged.
    """
    return valid_code(biz_code), valid_text("biz_num", _text_of(biz_num), NUM_LENGTH, HASH)


def valid_new_identity(biz_code: Any, biz_num: Any) -> tuple[str, str]:
    """Return both halves of an identity that may be written; see :func:`valid_identity`.

    Raises:
        InvalidTask: as there; or a half contains a character that is not seen.
    """
    code, num = valid_identity(biz_code, biz_num)
    return seen_text("biz_code", code), seen_text("biz_num", num)


def valid_code(biz_code: Any) -> str:
    """Return the first half of an identity; see :func:`valid_identity`."""
    return valid_text("biz_code", biz_code, CODE_LENGTH)


HASH = "; pass its hash: hashlib.sha256(num.encode()).hexdigest()"
"""The addition to the error about a number that is too long."""


def valid_part(biz_num: Any) -> str:
    """Return a part of a number to search for, as :func:`valid_fragment`; an int or a UUID as its text."""
    return valid_fragment("biz_num", _text_of(biz_num))


def valid_choice(fragment: Any, others: Collection[Any], everything: Any, field: str = "fragment") -> str | None:
    """Return a part of numbers that selects the tasks of a bulk call; None if it does not limit them.

    Raises:
        InvalidTask: the value is an int, which other numbers contain, too, or it is no text; or all tasks are selected
            (``others`` are the filters of the call), and ``everything`` is not True.
    """
    if isinstance(fragment, int):
        problem = "would select all tasks whose number contains it: use the call for one task, or pass a str"
        raise InvalidTask(field, fragment, problem)
    if everything is not True and (fragment == "" or (fragment is None and all(other is None for other in others))):
        problem = "would select every task of the code; pass everything=True if that is intended"
        raise InvalidTask(field, fragment, problem)
    if fragment is None:
        return None
    return valid_fragment(field, str(fragment) if isinstance(fragment, UUID) else fragment)


def valid_offset(value: Any, field: str) -> timedelta:
    """Return a timedelta of at most a hundred years, forwards or backwards.

    Raises:
        InvalidTask: the value is anything else.
    """
    if not isinstance(value, timedelta):
        raise InvalidTask(field, value, "must be a timedelta")
    return _valid_delta(value, field)


_TOO_LARGE = 10**NUM_LENGTH
"""Python refuses to write integers of thousands of digits."""


def _text_of(biz_num: Any) -> str:
    if isinstance(biz_num, str):
        return biz_num
    if isinstance(biz_num, UUID):
        return str(biz_num)
    if not isinstance(biz_num, int) or isinstance(biz_num, bool):
        raise InvalidTask("biz_num", biz_num, "must be a str, an int or a UUID")
    text = "" if abs(biz_num) >= _TOO_LARGE else str(int(biz_num))  # of a member of IntegerChoices, its value
    if not 0 < len(text) <= NUM_LENGTH:
        raise InvalidTask("biz_num", biz_num, f"is longer than {NUM_LENGTH} characters")
    return text


_BEYOND_DOUBT = re.compile(r"[A-Za-z0-9._:/#@+-]+")
"""Matches most codes and numbers, which then need no further check."""


def valid_text(field: str, value: Any, longest: int, instead: str = "") -> str:
    """Return a non-empty text of at most ``longest`` characters, without NULs, lone surrogates, or spaces at its ends.

    ``instead`` ends the message about a text that is longer.

    Raises:
        InvalidTask: the value is anything else.
    """
    if type(value) is str and len(value) <= longest and _BEYOND_DOUBT.fullmatch(value):
        return value
    if not isinstance(value, str):
        raise InvalidTask(field, value, "must be a str")
    if not value:
        raise InvalidTask(field, value, "must not be empty")
    if len(value) > longest:
        raise InvalidTask(field, value, f"is {len(value)} characters long; {longest} at most{instead}")
    if value != value.strip():
        raise InvalidTask(field, value, "must not begin or end with white space")
    _storable(field, value)
    return _plain(value)


def seen_text(field: str, text: str) -> str:
    """Return a valid text that may be written as a name: all of it is seen.

    Raises:
        InvalidTask: it contains a control character, or another one that is not shown or turns text around.
    """
    if unseen := unseen_in(text):
        raise InvalidTask(field, text, f"contains {unseen}, which is not shown as it is: names must be visible")
    return text


def valid_fragment(field: str, value: Any) -> str:
    """Return a text to search for: any text that a database can compare, even an empty one."""
    if not isinstance(value, str):
        raise InvalidTask(field, value, "must be a str")
    _storable(field, value)
    return _plain(value)


def _plain(text: str) -> str:
    # For a member of TextChoices, some database drivers would write its name.
    return str.__str__(text)


def _storable(field: str, value: str) -> None:
    if problem := unstorable(value):
        raise InvalidTask(field, value, problem)


def valid_when(value: Any, field: str = "when") -> When:
    """Return an aware datetime in the range of :func:`is_in_range`, a timedelta from now, or None for at once.

    Raises:
        InvalidTask: the value is anything else.
    """
    if value is None:
        return None
    if isinstance(value, timedelta):
        return _valid_delta(value, field)
    if not isinstance(value, datetime):
        raise InvalidTask(field, value, "must be an aware datetime, a timedelta from now, or None", shown(value))
    if value.utcoffset() is None:
        raise InvalidTask(
            field, value, "is naive; give it a time zone, as with timezone.make_aware(...), or use timezone.now()"
        )
    if not is_in_range(value):
        raise InvalidTask(field, value, OUT_OF_RANGE)
    return value.astimezone(UTC)


def valid_moment(value: Any, field: str = "when") -> datetime:
    """Return an aware datetime in the range of :func:`is_in_range`.

    Raises:
        InvalidTask: the value is anything else.
    """
    moment = valid_when(value, field)
    if not isinstance(moment, datetime):
        raise InvalidTask(field, value, "must be an aware datetime")
    return moment


def _valid_delta(value: timedelta, field: str) -> timedelta:
    if abs(value) > MAX_SPAN:
        raise InvalidTask(field, value, "is more than a hundred years")
    return value


_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def valid_json(value: Any, largest: int, field: str = "biz_ext") -> str | None:
    """Return the value as JSON text, or None for None.

    Raises:
        InvalidTask: the value is not JSON (this includes NaN and infinities, and keys that are not texts), contains
            what a database cannot store (a NUL, a lone surrogate, an integer beyond 64 bits, nesting too deep), or is
            larger than ``largest`` bytes with its numbers written in full. The message names the part that is to blame.
    """
    if value is None:
        return None
    try:
        text = in_full(_written(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(field, value, culprit_in(value) or Culprit((), f"is not JSON: {error}")) from None
    if not is_plain(value, text) and (culprit := culprit_in(value)):
        raise _not_json(field, value, culprit)
    # Counted only if it may be too large: no character has more than four bytes.
    if len(text) * 4 > largest and len(text.encode()) > largest:
        raise InvalidTask(field, value, f"is {len(text.encode())} bytes of JSON; {largest} at most", shown(value))
    return text


def _not_json(field: str, value: Any, culprit: Culprit) -> InvalidTask:
    path, part = shown_at(culprit.path, value)
    return InvalidTask(field, value, culprit.problem, part, path)


def valid_priority(value: Any) -> int:
    """Return an int from -100 to 100; a task of higher priority is claimed first."""
    if not isinstance(value, int) or isinstance(value, bool) or value not in PRIORITIES:
        raise InvalidTask("priority", value, f"must be an int from {PRIORITIES[0]} to {PRIORITIES[-1]}")
    return int(value)


def valid_trigger(value: Any) -> Trigger | None:
    """Return the trigger of this text; None for None.

    Raises:
        InvalidTrigger: the value is anything else.
    """
    return None if value is None else parse(value)


def valid_once(value: Any, trigger: Trigger | None) -> bool | None:
    """Return True if the task is to be done only once; None for False.

    Raises:
        InvalidTask: the value is not a bool, or is True for a recurring task.
    """
    if not isinstance(value, bool):
        raise InvalidTask("once", value, "must be True or False")
    if value and trigger:
        raise InvalidTask("once", value, "cannot be set for a recurring task")
    return value or None


def valid_queue(value: Any) -> str:
    """Return a queue's name: a non-empty text of at most 50 characters."""
    return valid_text("queue", value, QUEUE_LENGTH)


def valid_new_queue(value: Any) -> str:
    """Return a queue's name that may be written: one that is seen as it is."""
    return seen_text("queue", valid_queue(value))


MAX_MESSAGE = 20_000
"""Characters of an error in the history; of a longer one, the middle is left out."""


def storable(text: str) -> str:
    """Return the text with what a database cannot store replaced, and its middle left out if it is very long."""
    text = without_unstorable(text)
    if len(text) <= MAX_MESSAGE:
        return text
    half = MAX_MESSAGE // 2
    return f"{text[:half]}\n… {len(text) - MAX_MESSAGE} characters left out …\n{text[-half:]}"

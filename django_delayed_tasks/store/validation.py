"""What may be accepted. Everything is looked at before anything is written."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import InvalidTask, InvalidTrigger
from django_delayed_tasks.models import CODE_LENGTH, EARLIEST, LATEST, NUM_LENGTH, QUEUE_LENGTH, TRIGGER_LENGTH
from django_delayed_tasks.store.json_limits import problem_of
from django_delayed_tasks.support.exact_json import in_full
from django_delayed_tasks.support.redaction import shown
from django_delayed_tasks.triggers import Trigger, parse

PRIORITIES = range(-100, 101)
LONGEST = timedelta(days=366 * 100)
_MARGIN = timedelta(days=1)

When = datetime | timedelta | None


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
    """Not before this moment, when that is later than ``when``."""


def valid_identity(biz_code: Any, biz_num: Any) -> tuple[str, str]:
    """Both halves of an identity.

    Raises:
        InvalidTask: a half is no text, empty, too long, or holds what a database would not give back as it was.
    """
    return valid_text("biz_code", biz_code, CODE_LENGTH), valid_text("biz_num", biz_num, NUM_LENGTH)


_BEYOND_DOUBT = re.compile(r"[A-Za-z0-9._:/#@+-]+")
"""Most names and numbers: they need no closer look."""


def valid_text(field: str, value: Any, longest: int) -> str:
    """A non-empty text of at most ``longest`` characters, without NULs, lone surrogates, or spaces at its ends."""
    if type(value) is str and len(value) <= longest and _BEYOND_DOUBT.fullmatch(value):
        return value
    if not isinstance(value, str):
        raise InvalidTask(field, value, "must be a str")
    if not value:
        raise InvalidTask(field, value, "must not be empty")
    if len(value) > longest:
        raise InvalidTask(field, value, f"is {len(value)} characters long; {longest} at most")
    if value != value.strip():
        raise InvalidTask(field, value, "must not begin or end with white space")
    _storable(field, value, value)
    return _plain(value)


def valid_fragment(field: str, value: Any) -> str:
    """A text to search for: any that a database can be asked about, the empty one too."""
    if not isinstance(value, str):
        raise InvalidTask(field, value, "must be a str")
    _storable(field, value, value)
    return _plain(value)


def _plain(text: str) -> str:
    # Of a member of TextChoices some database drivers would write the name.
    return str.__str__(text)


def _storable(field: str, value: Any, text: str) -> None:
    if problem := _unstorable(text):
        raise InvalidTask(field, value, problem)


def _unstorable(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character, which databases cannot keep"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds a lone surrogate, which is no text"
    return None


def valid_when(value: Any, field: str = "when") -> When:
    """An aware datetime in every database's range (1000 to 9999), a timedelta from now, or None for at once.

    Raises:
        InvalidTask: anything else.
    """
    if value is None:
        return None
    if isinstance(value, timedelta):
        return _valid_delta(value, field)
    if not isinstance(value, datetime):
        raise InvalidTask(field, value, "must be an aware datetime, a timedelta from now, or None")
    if value.utcoffset() is None:
        raise InvalidTask(field, value, "is naive; give it a time zone")
    if not EARLIEST + _MARGIN <= value <= LATEST - _MARGIN:
        raise InvalidTask(field, value, "is out of the range of databases (years 1000 to 9999)")
    return value.astimezone(UTC)


def valid_moment(value: Any, field: str = "when") -> datetime:
    """An aware datetime in every database's range.

    Raises:
        InvalidTask: anything else.
    """
    moment = valid_when(value, field)
    if not isinstance(moment, datetime):
        raise InvalidTask(field, value, "must be an aware datetime")
    return moment


def _valid_delta(value: timedelta, field: str) -> timedelta:
    if abs(value) > LONGEST:
        raise InvalidTask(field, value, "is more than a hundred years from now")
    return value


_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_LARGEST_CHARACTER = 4
"""Bytes."""


def valid_json(value: Any, largest: int, field: str = "biz_ext") -> str | None:
    """The value as JSON text, or None for None.

    Raises:
        InvalidTask: it is no JSON (NaN and infinities included), holds what a database cannot keep (a NUL, a lone
            surrogate, an integer beyond 64 bits, too deep a nesting), has two keys that JSON writes alike, or is larger
            than ``largest`` bytes, numbers written in full.
    """
    if value is None:
        return None
    try:
        text = in_full(_written(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTask(field, value, f"is not JSON: {error}", shown(value)) from None
    problem = problem_of(value, text) or _unstorable(text)
    if problem is None and len(text) * _LARGEST_CHARACTER > largest and len(text.encode()) > largest:
        problem = f"is {len(text.encode())} bytes of JSON; {largest} at most"
    if problem:
        raise InvalidTask(field, value, problem, shown(value))
    return text


def valid_priority(value: Any) -> int:
    """An int from -100 to 100; a higher one is claimed first."""
    if not isinstance(value, int) or isinstance(value, bool) or value not in PRIORITIES:
        raise InvalidTask("priority", value, f"must be an int from {PRIORITIES[0]} to {PRIORITIES[-1]}")
    return int(value)


def valid_trigger(value: Any) -> Trigger | None:
    """A trigger, from one or from its text; None stays None.

    Raises:
        InvalidTrigger: anything else.
    """
    if value is None or isinstance(value, Trigger):
        trigger: Trigger | None = value
    else:
        trigger = parse(value)
    if trigger and len(str(trigger)) > TRIGGER_LENGTH:
        raise InvalidTrigger("trigger", trigger, f"is longer than {TRIGGER_LENGTH} characters")
    return trigger


def valid_once(value: Any, trigger: Trigger | None) -> bool | None:
    """Whether a task with this trigger, or none, is to be done once; None for False.

    Raises:
        InvalidTask: no bool, or said of a task that recurs.
    """
    if not isinstance(value, bool):
        raise InvalidTask("once", value, "must be True or False")
    if value and trigger:
        raise InvalidTask("once", value, "cannot be said of a task that recurs")
    return value or None


def valid_queue(value: Any) -> str:
    """A queue's name: a non-empty text of at most 50 characters."""
    return valid_text("queue", value, QUEUE_LENGTH)


def later_than(when: When) -> datetime:
    """Roughly when this is, by the host's clock: for a hint, never for a decision."""
    if isinstance(when, datetime):
        return when
    return clock.host_now() + (when or timedelta())


LONGEST_ERROR = 20_000


def storable(text: str) -> str:
    """The text without what a database cannot keep, its middle left out if it is very long."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="backslashreplace").decode()
    if len(clean) <= LONGEST_ERROR:
        return clean
    half = LONGEST_ERROR // 2
    return f"{clean[:half]}\n… {len(clean) - LONGEST_ERROR} characters left out …\n{clean[-half:]}"

"""The ``DELAYED_TASKS`` setting: ``from django_delayed_tasks.conf import settings``, then ``settings.THREADS``.

It is read lazily and merged over the defaults; ``override_settings(DELAYED_TASKS={...})`` takes effect at the next
access. If any key or value is invalid, every access raises :class:`InvalidSetting`: otherwise a misspelled key would
silently mean the default.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_origin, get_type_hints

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from django_delayed_tasks.exceptions import InvalidSetting, shortened
from django_delayed_tasks.triggers.values import MAX_SPAN

Reader = Callable[[Any], Any]
"""A function that turns a given value into the one that is used; raises ValueError saying what was expected."""

CLAIM_STRATEGIES = ("auto", "skip_locked", "compare_and_set")
INLINE = "inline"
MODES = ("executor", INLINE)
MAX_SECONDS = 366 * 24 * 3600.0
"""Seconds of a setting, an option or a lease: a year; what is longer is a mistake."""


class Problem(NamedTuple):
    """The problem with one key, or with the setting as a whole (key ""), and what would be right."""

    key: str
    problem: str
    kind: Literal["unknown", "value", "lease"] = "value"
    hint: str | None = None

    @property
    def where(self) -> str:
        """The part of the setting that is wrong."""
        return f"DELAYED_TASKS[{self.key!r}]" if self.key else "DELAYED_TASKS"

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f" ({self.hint})" if self.kind == "unknown" else "")


def as_seconds(duration: Any) -> float:
    """Return a duration given as int, float or timedelta as finite seconds; raise ValueError for anything else."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not math.isfinite(duration):
        raise ValueError("expected seconds (int or float) or a timedelta")
    return float(duration)


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a non-empty text")
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected True or False")
    return value


def one_of(words: tuple[str, ...]) -> Reader:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"expected one of {', '.join(map(repr, words))}")
        return value

    return read


def number(lowest: int, highest: int | None = None) -> Reader:
    expected = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"

    def read(value: Any) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < lowest or (highest is not None and value > highest):
            raise ValueError(f"expected an int {expected}")
        return int(value)

    return read


def or_none(reader: Reader) -> Reader:
    """Return a reader that accepts None as well."""

    def read(value: Any) -> Any:
        try:
            return None if value is None else reader(value)
        except ValueError as error:
            raise ValueError(str(error).replace("expected ", "expected None or ", 1)) from None

    return read


def seconds(*, or_zero: bool = False) -> Reader:
    def read(value: Any) -> float:
        seconds = as_seconds(value)
        if not 0 <= seconds <= MAX_SECONDS or (seconds == 0 and not or_zero):
            raise ValueError(f"expected a duration {'of at least' if or_zero else 'above'} 0 s and of at most 366 days")
        return seconds

    return read


def keeping(value: Any) -> timedelta | None:
    # No bare numbers here: KEEP_HISTORY = 7, meant as days, would keep the history for seven seconds.
    if value is None:
        return None
    if not isinstance(value, timedelta) or not timedelta(0) < value <= MAX_SPAN:
        raise ValueError("expected a timedelta above zero, such as timedelta(days=7), or None to keep it forever")
    return value


def _names(value: Any) -> tuple[str, ...]:
    # A str is a sequence of texts, too: "password" would hide the values of p, a, s, w, o, r and d.
    if not isinstance(value, list | tuple | set | frozenset):
        raise ValueError("expected a list of key names")
    if not all(isinstance(name, str) and name for name in value):
        raise ValueError("expected key names that are non-empty texts")
    return tuple(sorted({name.casefold() for name in value}))


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) and "." in path for path in value):
        raise ValueError("expected a list of dotted paths, in order")
    return tuple(value)


def _modules(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and _is_dotted(name) for name in value):
        raise ValueError("expected a list of dotted names of modules or packages")
    return tuple(value)


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


@dataclass(frozen=True, slots=True)
class Values:
    """All settings, each with its reader and its default; durations given as floats are in seconds."""

    DATABASE: Annotated[str, text] = "default"
    THREADS: Annotated[int, number(1, 1000)] = 8
    ASYNC_CONCURRENCY: Annotated[int, number(1, 100_000)] = 100
    POLL_INTERVAL: Annotated[float, seconds()] = 0.2
    HEARTBEAT: Annotated[float, seconds()] = 3.0
    LEASE: Annotated[float, seconds()] = 10.0
    CLAIM: Annotated[str, one_of(CLAIM_STRATEGIES)] = "auto"
    BATCH_SIZE: Annotated[int, number(1, 10_000)] = 300
    MAX_RESCUES: Annotated[int, number(0, 1_000_000)] = 3
    SHUTDOWN_TIMEOUT: Annotated[float, seconds(or_zero=True)] = 30.0
    KEEP_HISTORY: Annotated[timedelta | None, keeping] = timedelta(days=7)
    ONCE_RETENTION: Annotated[timedelta | None, keeping] = None
    MAX_BIZ_EXT_BYTES: Annotated[int, number(0, 2**30)] = 65_536
    ALLOW_UNKNOWN_CODES: Annotated[bool, boolean] = False
    FUNCTION_MODULES: Annotated[tuple[str, ...], _modules] = ()
    MAX_LOST_THREADS: Annotated[int, number(1, 1000)] = 8
    NOTIFY: Annotated[bool, boolean] = True
    MODE: Annotated[str, one_of(MODES)] = "executor"
    REDACT: Annotated[tuple[str, ...], _names] = ()
    MIDDLEWARE: Annotated[tuple[str, ...], _paths] = ()


def readers_of(declaring: type) -> dict[str, Reader]:
    """Return the reader of each attribute of the class that is declared with one, as an annotation of its type."""
    hints = get_type_hints(declaring, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


READERS: Final[Mapping[str, Reader]] = readers_of(Values)


def read(given: Any) -> tuple[Values, list[Problem]]:
    """Return the values of a ``DELAYED_TASKS``, with defaults in place of invalid ones, and all of its problems."""
    if not isinstance(given, Mapping):
        return Values(), [Problem("", f"expected a dict, not {shortened(given)}")]
    problems = [_unknown(key) for key in given if key not in READERS]
    accepted = {}
    for key in READERS.keys() & given.keys():
        try:
            accepted[key] = READERS[key](given[key])
        except ValueError as error:
            problems.append(Problem(key, f"{shortened(given[key])}: {error}"))
    values = Values(**accepted)
    if not any(problem.key in ("LEASE", "HEARTBEAT") for problem in problems):
        problems += _lease_problems(values)
    return values, sorted(problems)


def _unknown(key: Any) -> Problem:
    close = get_close_matches(str(key).upper(), [*READERS, "TASK_HANDLERS"], n=1)
    if close == ["TASK_HANDLERS"]:
        return Problem(str(key), "unknown key", "unknown", "TASK_HANDLERS is a setting of its own, next to this one.")
    hint = f"Did you mean {close[0]}?" if close else f"The keys are {', '.join(READERS)}."
    return Problem(str(key), "unknown key", "unknown", hint)


def _lease_problems(values: Values) -> list[Problem]:
    if values.LEASE > 2 * values.HEARTBEAT:
        return []
    lengths = f"{values.LEASE:g} s, with a HEARTBEAT of {values.HEARTBEAT:g} s"
    hint = "One late heartbeat must not cost an executor its claims; a lease of three heartbeats is a good choice."
    return [Problem("LEASE", f"{lengths}: a lease must be longer than two heartbeats", "lease", hint)]


@cache
def _current() -> Values:
    values, problems = read(getattr(django_settings, "DELAYED_TASKS", {}))
    if problems:
        raise InvalidSetting("; ".join(map(str, problems)))
    return values


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DELAYED_TASKS":
        _current.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_delayed_tasks.conf")


class _Settings:
    """Attributes that are read from the current :class:`Values` at every access."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_current(), name)

    def __dir__(self) -> list[str]:
        return [*READERS]

    def __repr__(self) -> str:
        return f"<DELAYED_TASKS {asdict(_current())}>"


if TYPE_CHECKING:
    settings: Values
else:
    settings = _Settings()

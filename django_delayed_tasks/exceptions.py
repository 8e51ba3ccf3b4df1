"""Exceptions: every one that this library raises on purpose is a subclass of :class:`TaskException`."""

from collections.abc import Iterable
from typing import Any


class TaskException(Exception):
    """The base class of this library's exceptions."""


class InvalidTask(TaskException, ValueError):
    """A value that cannot be accepted; nothing was written.

    Attributes:
        field: the name of the argument or field.
        value: the value that was passed.
        problem: what is wrong with it.
    """

    def __init__(
        self, field: str, value: Any, problem: str, shown: str | None = None, path: Iterable[Any] = ()
    ) -> None:
        """Build the message; ``shown``, if given, replaces a value that must not be shown as it is.

        ``path`` has the keys that lead to the part of the value that is to blame, and is shown.
        """
        self.field = field
        self.value = value
        self.problem = problem
        keys = "".join(f"[{shortened(key)}]" for key in path)
        super().__init__(f"{field}{keys}={shortened(value) if shown is None else shown}: {problem}")


class InvalidTrigger(InvalidTask):
    """A trigger that is not valid; ``field`` names the argument."""


class UnknownCode(InvalidTask):
    """No handler is registered for this ``biz_code``."""


class TaskExists(TaskException):
    """A task of this identity exists already, and the call was made with ``if_exists="raise"``."""

    def __init__(self, biz_code: str, biz_num: str) -> None:
        self.biz_code = biz_code
        self.biz_num = biz_num
        super().__init__(f"a task ({biz_code!r}, {biz_num!r}) exists already")


class InvalidHandler(TaskException):
    """A handler that cannot be registered: it has no code, an invalid attribute, or the code of another handler."""


class InvalidOutcome(TaskException):
    """``handle`` returned something that is not an outcome."""


class InvalidSetting(TaskException, ValueError):
    """A key or a value of ``DELAYED_TASKS`` that cannot be used."""


class TaskTimeout(TaskException):
    """A run took longer than its handler's ``timeout``, so the task was taken from it."""


class ClaimLost(TaskException):
    """This run's claim is gone: the task was taken from it and may be running elsewhere."""


class CutOff(TaskException):
    """A run was cut off, but did not fail; this is never raised, but names the reason in the history."""


class TaskCancelled(TaskException):
    """A task was cancelled; this is never raised, but names the reason in the result of a function task."""


class TaskExpired(TaskException):
    """A task was too late to start; this is never raised, but names the reason in the result of a function task."""


class NameInUse(TaskException):
    """A live executor already has this name."""


class LeaseLost(TaskException):
    """A mutex or a resource is no longer held: its lease was not renewed in time, or ended by force.

    Another process may hold it now.
    """


class ResourceUnavailable(TaskException):
    """A mutex, or every resource of a pool, was held by others for as long as the caller was willing to wait."""


class UnknownPool(InvalidTask):
    """No resource was ever added to a pool of this name, or the pool has no resource of the name that is wanted."""


def shortened(value: Any, limit: int = 80) -> str:
    """Return ``repr(value)``, cut to ``limit`` characters."""
    try:
        text = repr(value)
    except Exception:  # from the value's own __repr__, or because it is nested too deeply
        text = object.__repr__(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

"""Every exception that this library raises on purpose descends from :class:`TaskException`."""

from typing import Any


class TaskException(Exception):
    """The root of this library's exceptions."""


class InvalidTask(TaskException, ValueError):
    """A value that cannot be accepted; nothing was written.

    Attributes:
        field: the name of the argument or field.
        value: what was given.
    """

    def __init__(self, field: str, value: Any, problem: str, shown: str | None = None) -> None:
        """``shown`` is how the message shows the value, where it must not as it is."""
        self.field = field
        self.value = value
        super().__init__(f"{field}={shortened(value) if shown is None else shown}: {problem}")


class InvalidTrigger(InvalidTask):
    """A trigger that cannot be; ``field`` names the argument."""


class UnknownCode(InvalidTask):
    """No handler is registered for this ``biz_code``."""


class TaskExists(TaskException):
    """``if_exists="raise"`` and a task of this identity exists."""

    def __init__(self, biz_code: str, biz_num: str) -> None:
        self.biz_code = biz_code
        self.biz_num = biz_num
        super().__init__(f"a task ({biz_code!r}, {biz_num!r}) exists already")


class InvalidHandler(TaskException):
    """A handler that cannot be registered: no code, a wrong attribute, or a code that another handler has."""


class InvalidOutcome(TaskException):
    """``handle`` returned something that is no outcome."""


class InvalidSetting(TaskException, ValueError):
    """A key or a value of ``DELAYED_TASKS`` that cannot be used."""


class TaskTimeout(TaskException):
    """A run took longer than its handler's ``timeout``; the task was taken from it."""


class ClaimLost(TaskException):
    """This run's claim is gone: the task was taken from it and may be running elsewhere."""


class NameInUse(TaskException):
    """A live executor already has this name."""


class LeaseLost(TaskException):
    """A mutex or a resource is no longer held: it was not renewed in time, or taken away, and may be held elsewhere."""


class ResourceUnavailable(TaskException):
    """A mutex, or every resource of a pool, was held by others for as long as one was willing to wait."""


class UnknownPool(InvalidTask):
    """No resource was ever added to a pool of this name."""


def shortened(value: Any, limit: int = 80) -> str:
    """``repr(value)``, cut to ``limit`` characters."""
    try:
        text = repr(value)
    except Exception:  # a foreign __repr__, or a value nested too deeply for any
        text = object.__repr__(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

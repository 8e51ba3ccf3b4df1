"""A decorated function that gets the lease of each call, if it has a parameter for it."""

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Final, Generic, TypeVar

R = TypeVar("R")

LEASE: Final = "lease"
"""The name of the parameter."""


class Decorated(Generic[R]):
    """A function, and the place of its parameter ``lease``."""

    signature: Signature | None = None
    """The function's signature as its callers see it, without ``lease``; None if the function has no such parameter."""

    def __init__(self, function: Callable[..., R]) -> None:
        """Look for the parameter ``lease``.

        Raises:
            TypeError: a call of the function returns before its work is done.
        """
        _refuse_unfinished(function)
        self._function = function
        self._place: int | None = None
        """How many positional arguments come before the lease; None if it is passed by its name."""
        try:
            found = inspect.signature(function)
        except (TypeError, ValueError):  # a function that is not written in Python
            return
        parameters = list(found.parameters.values())
        for place, parameter in enumerate(parameters):
            if parameter.name == LEASE and parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                self._place = None if parameter.kind is Parameter.KEYWORD_ONLY else place
                self.signature = found.replace(parameters=[other for other in parameters if other is not parameter])

    def call(self, lease: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Call the function with the caller's arguments, and the lease if it takes one."""
        if self.signature is None:
            return self._function(*args, **kwargs)
        if self._place is None or len(args) < self._place:
            return self._function(*args, lease=lease, **kwargs)
        return self._function(*args[: self._place], lease, *args[self._place :], **kwargs)


_ASYNC: Final = "use `async with mutex(...)` inside of it"
_UNFINISHED: Final = (
    (inspect.iscoroutinefunction, "an async function", _ASYNC),
    (inspect.isasyncgenfunction, "an async generator function", _ASYNC),
    (inspect.isgeneratorfunction, "a generator function", "use `with mutex(...)` inside of it"),
)


def _refuse_unfinished(function: Callable[..., Any]) -> None:
    for is_one, kind, instead in _UNFINISHED:
        if is_one(function) or is_one(getattr(function, "__call__", None)):  # noqa: B004
            name = getattr(function, "__qualname__", function)
            raise TypeError(
                f"{name} is {kind}: a call of it returns at once, and the mutex would be released before the work is"
                f" done; {instead}"
            )

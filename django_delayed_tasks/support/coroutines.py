"""Plain calls whose end a coroutine awaits."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def for_coroutines(call: Callable[P, R]) -> Callable[P, R]:
    """Return the call, which raises RuntimeError in place of StopIteration, as a coroutine does.

    No asyncio future can hold a StopIteration: on Python 3.11 the coroutine that awaits it would wait forever.
    """

    @wraps(call)
    def passable(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("a call in a thread raised StopIteration") from error

    return passable

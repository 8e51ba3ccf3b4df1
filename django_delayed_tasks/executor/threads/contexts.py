"""A clean context for each call of a project's code: what one leaves behind, the next does not find.

That is the active translation and time zone, and every other context variable. Django's database connections are the
thread's whatever its context; its caches are not, and would connect again in each run: they are made once in a thread,
in the context that is copied for each call.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from threading import local
from typing import ParamSpec, TypeVar

from django.core.cache import caches

P = ParamSpec("P")
R = TypeVar("R")


def _make_caches() -> None:
    for alias in caches:
        with suppress(Exception):  # one that cannot be made fails those who use it
            caches[alias]


class _Base(local):
    """The context of this thread that is copied."""

    def __init__(self) -> None:
        self.context = Context()
        self.context.run(_make_caches)


_base = _Base()


def in_clean_context(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call it, in this thread, in a context in which nothing is set."""
    return _base.context.copy().run(call, *args, **kwargs)

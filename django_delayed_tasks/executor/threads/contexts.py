"""A clean context for each call of a project's code, so that no call finds what another has left behind.

That includes the active translation and time zone, and every other context variable. Django's database connections
belong to the thread, whatever its context. But its caches and the backends of its Tasks framework belong to the
context: in a new one, a cache would connect again, and making a backend takes longer than running a function. So both
are created once per thread, in the context that is copied for each call.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from threading import local
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from django.core.cache import caches

from django_delayed_tasks.support.forks import in_one_process

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


FRAMEWORKS: Final = ("django.tasks", "django_tasks")
"""The modules of the Tasks framework and of its backport."""


def _make_kept() -> None:
    for kept in (caches, *_task_backends()):
        for alias in kept:
            with suppress(Exception):  # what cannot be created fails its users
                kept[alias]


def _task_backends() -> list[Any]:
    """Return the collections of backends of the frameworks that this process has imported."""
    return [sys.modules[name].task_backends for name in FRAMEWORKS if name in sys.modules]


class _Base(local):
    """The context of this thread that is copied for each call."""

    def __init__(self) -> None:
        self.context = Context()
        self.context.run(_make_kept)


_base = _Base()


def clean_context() -> Context:
    """Return a context in which no variable is set, for a call in this thread."""
    return _base.context.copy()


def in_clean_context(call: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call ``call`` in this thread, in a context in which no variable is set; return its result.

    A child that it has forked ends where the call ends, as with ``in_one_process``.
    """
    return in_one_process(_base.context.copy().run, call, *args)

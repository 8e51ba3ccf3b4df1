"""Forks: what a process has started belongs to that process, and a forked child forgets it."""

import os
from collections.abc import Callable
from threading import Lock

_forgetting: list[Callable[[], None]] = []
pid = os.getpid()
"""The id of this process, as of the last fork that was noticed; reading it costs less than asking for it."""
_noticing = Lock()


def forget_in_child(forget: Callable[[], None]) -> None:
    """Call ``forget()`` in each forked child of this process."""
    _forgetting.append(forget)


def notice() -> None:
    """Forget now if this is a forked child whose fork was not noticed.

    uWSGI, for example, does not call the hooks of ``os.register_at_fork``.
    """
    if os.getpid() != pid:
        with _noticing:  # what another thread of the child begins meanwhile must not be forgotten with the rest
            if os.getpid() != pid:
                _forget()


def _forget() -> None:
    global pid
    for forget in _forgetting:
        forget()
    pid = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

"""Forks: what a process has started belongs to that process, and a forked child forgets it.

A handler may have forked, or have asked for the end of its process.
"""

import os
import traceback
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


def is_success(error: BaseException) -> bool:
    """Return whether an error says that its process is to end, and that all is well: ``sys.exit()``."""
    return isinstance(error, SystemExit) and (error.code is None or (isinstance(error.code, int) and error.code == 0))


def end_if_forked(before: int, error: BaseException | None = None) -> None:
    """End this process, as ``error`` says, if it is not the one with the id ``before``, but a child of it.

    A child that went on would be a copy of the executor. What was registered with ``atexit`` belongs to the parent, and
    is not called, nor are streams flushed, whose locks another thread of the parent may have had.
    """
    if pid != before:
        code = 0 if error is None or is_success(error) else 1
        try:
            if isinstance(error, SystemExit) and isinstance(error.code, int):
                code = error.code & 0xFF
            elif code:
                text = f"{error}\n" if isinstance(error, SystemExit) else "".join(traceback.format_exception(error))
                os.write(2, text.encode())
        finally:
            os._exit(code)

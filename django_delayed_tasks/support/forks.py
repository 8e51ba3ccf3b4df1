"""Forks: what a process has started belongs to that process, and a forked child forgets it.

A call of a project's code may have forked, or have asked for the end of its process.
"""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import TypeVar, TypeVarTuple, Unpack

LAST_WORDS = 1.0
"""Seconds that a child may take to print its error and flush its streams."""
Ts = TypeVarTuple("Ts")
R = TypeVar("R")

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


def in_one_process(call: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call ``call``; a child that it has forked ends where the call ends, as a process does."""
    before = pid
    try:
        returned = call(*args)
    except BaseException as error:
        end_if_forked(before, error)
        raise
    if pid != before:
        end_if_forked(before)
    return returned


def end_if_forked(before: int, error: BaseException | None = None) -> None:
    """End this process if it is not the one with the id ``before``, but a child of it; the exit code is as Python's.

    A child that went on would be a copy of the executor. What was registered with ``atexit`` belongs to the parent, and
    is not called, as in the children of ``multiprocessing``.
    """
    if pid == before:
        return
    try:
        # In a thread: another one of the parent may have had the lock of a stream, which is never released here.
        last_words = Thread(target=_print_last, args=(error,), daemon=True)
        last_words.start()
        last_words.join(LAST_WORDS)
    finally:
        os._exit(_code_of(error))


def _print_last(error: BaseException | None) -> None:
    with suppress(BaseException):  # what is printed may misbehave in any way
        if isinstance(error, SystemExit):
            if not isinstance(error.code, int | None):
                print(error.code, file=sys.stderr)
        elif error is not None:
            traceback.print_exception(error)
    with suppress(BaseException):
        sys.stdout.flush()
    with suppress(BaseException):
        sys.stderr.flush()


def _code_of(error: BaseException | None) -> int:
    if error is None or is_success(error):
        return 0
    code = error.code if isinstance(error, SystemExit) else None
    return code & 0xFF if isinstance(code, int) else 1

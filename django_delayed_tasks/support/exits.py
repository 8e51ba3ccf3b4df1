"""The effects of a call of a project's code on its process: it may have asked for its end, or be in a forked child."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

from django_delayed_tasks.support import forks

Ts = TypeVarTuple("Ts")
R = TypeVar("R")


def is_success(error: BaseException) -> bool:
    """Return whether an error says that its process is to end, and that all is well: ``sys.exit()``."""
    return isinstance(error, SystemExit) and (error.code is None or (isinstance(error.code, int) and error.code == 0))


def in_one_process(call: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call ``call``; a child that it has forked ends where the call ends, as a process does."""
    pid = forks.pid
    try:
        returned = call(*args)
    except BaseException as error:
        end_if_forked(pid, error)
        raise
    if forks.pid != pid:
        end_if_forked(pid)
    return returned


def end_if_forked(pid: int, error: BaseException | None = None) -> None:
    """End this process if it is not the one with this id, but a child of it; the exit code is as Python's.

    A child that went on would be a copy of the executor. What was registered with ``atexit`` belongs to the parent, and
    is not called, as in the children of ``multiprocessing``.
    """
    if forks.pid == pid:
        return
    try:
        code = _code_of(error)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # what is printed may misbehave in any way
        code = 1
    finally:
        os._exit(code)


def _code_of(error: BaseException | None) -> int:
    if error is None or is_success(error):
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
    elif isinstance(error.code, int):
        return error.code & 0xFF
    else:
        print(error.code, file=sys.stderr)
    return 1

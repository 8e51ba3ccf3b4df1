"""What a handler may do to the connections, and to the process, of its run; the next run is to find nothing of it."""

import asyncio
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from django.db import connections, transaction

OF_ANOTHER = "of another run"
"""The text of the error in a run that meets what another one has left."""
kept: list[Any] = []
"""What handlers have left behind: nothing of it is collected before the test ends."""


def enter(alias: str, **options: Any) -> None:
    block = transaction.atomic(using=alias, **options)
    block.__enter__()
    kept.append(block)


def keep_generator(alias: str) -> None:
    def rows() -> Iterator[int]:
        with transaction.atomic(using=alias):
            yield 1

    generator = rows()
    next(generator)
    kept.append(generator)


def keep_wrapper(alias: str) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError(OF_ANOTHER)

    wrapped = connections[alias].execute_wrapper(refuse)
    wrapped.__enter__()
    kept.append(wrapped)


def keep_capturing(alias: str) -> None:
    """As a ``CaptureQueriesContext`` that is not left."""
    connections[alias].force_debug_cursor = True


def add_bad_hook(alias: str) -> None:
    def fail() -> None:
        raise ValueError("hook")

    transaction.on_commit(fail, using=alias)


def close_driver(alias: str) -> None:
    connections[alias].ensure_connection()
    connections[alias].connection.close()


def leave_loop(alias: str) -> None:
    """As a library does that runs a loop in a greenlet of this thread."""
    loop = asyncio.new_event_loop()
    loop.close()
    asyncio._set_running_loop(loop)


MISUSES: dict[str, Callable[[str], Any]] = {
    "enter": enter,
    "enter without savepoint": lambda alias: enter(alias, savepoint=False),
    "enter durable": lambda alias: enter(alias, durable=True),
    "generator": keep_generator,
    "autocommit off": lambda alias: transaction.set_autocommit(False, using=alias),
    "savepoint": lambda alias: transaction.savepoint(using=alias),
    "set_rollback": lambda alias: transaction.set_rollback(True, using=alias),
    "close": lambda alias: connections[alias].close(),
    "close driver": close_driver,
    "wrapper": keep_wrapper,
    "capturing": keep_capturing,
    "bad hook": add_bad_hook,
    "loop": leave_loop,
}


def misuse(names: list[tuple[str, str]]) -> None:
    """Do all of it, whatever is raised: (the name of a misuse, the alias of a connection)."""
    for name, alias in names:
        with suppress(Exception):
            MISUSES[name](alias)


ENDS: dict[str, tuple[Callable[[], Any], int]] = {
    "sys.exit(0)": (lambda: sys.exit(0), 0),
    "sys.exit()": (sys.exit, 0),
    "sys.exit(3)": (lambda: sys.exit(3), 3),
    "sys.exit('text')": (lambda: sys.exit("text"), 1),
    "exception": (lambda: 1 / 0, 1),
    "return": (lambda: None, 0),
    "os._exit(5)": (lambda: os._exit(5), 5),
    "signal": (lambda: signal.raise_signal(signal.SIGKILL), -signal.SIGKILL),
}
"""How a child may end, and the exit code of that."""


def fork(end: Callable[[], Any]) -> int | None:
    """Fork a child that ends so; the parent waits for it, and returns its exit code. None says: this is the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end()
    return None

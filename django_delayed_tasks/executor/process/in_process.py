"""The executor that ``api.start`` runs in threads of the calling process."""

import atexit
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Thread
from typing import Any

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.membership.lease import REFUSED
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.leases.acquiring import refuse_in_transaction
from django_delayed_tasks.support import forks

_lock = Lock()
_executor: Executor | None = None
_of_parent: list[Executor | None] = []


def start(**options: Any) -> None:
    """Start the executor of this process; a parent's is another one.

    Raises:
        TaskException: it has one already, a live executor has its name, or the caller is inside a transaction.
        InvalidSetting: an option that does not exist or makes no sense.
    """
    global _executor
    forks.look()
    with _lock:
        if _executor is not None:
            raise TaskException("this process runs an executor already; call shutdown() first")
        executor = Executor(from_settings(**options))
        refuse_in_transaction(executor.options.database, REFUSED)
        _start(executor)
        _executor = executor
    atexit.register(shutdown)


def _start(executor: Executor) -> None:
    # In a thread of its own: a connection that the caller's thread opened for it would stay taken out of a pool, and be
    # shared with the children of a server that loads the application before it forks.
    def begin() -> None:
        with connections.of_thread(executor.options.database):
            executor.start()

    with ThreadPoolExecutor(1, "membership") as threads:
        threads.submit(begin).result()


def shutdown(wait: bool = True) -> None:
    """End it, if there is one; without ``wait``, in the background."""
    global _executor
    forks.look()
    with _lock:
        executor, _executor = _executor, None
    atexit.unregister(shutdown)
    if executor is None:
        return
    if wait:
        executor.stop()
    else:
        Thread(target=executor.stop, name="shutdown", daemon=True).start()


def _forget() -> None:
    """In a forked child: the executor is its parent's, and nothing of it is touched."""
    global _lock, _executor
    _lock = Lock()
    _of_parent.append(_executor)  # kept, or its sockets would be closed with a warning
    _executor = None


forks.forget_in_child(_forget)

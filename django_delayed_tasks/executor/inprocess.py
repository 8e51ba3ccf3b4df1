"""The executor that ``api.start`` runs in threads of the calling process."""

import atexit
from threading import Lock, Thread
from typing import Any

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import from_settings

_lock = Lock()
_executor: Executor | None = None


def start(**options: Any) -> None:
    """Start the executor of this process.

    Raises:
        TaskException: it has one already, or a live executor has its name.
        InvalidSetting: an option that does not exist or makes no sense.
    """
    global _executor
    with _lock:
        if _executor is not None:
            raise TaskException("this process runs an executor already; call shutdown() first")
        executor = Executor(from_settings(**options))
        executor.start()
        _executor = executor
    atexit.register(shutdown)


def shutdown(wait: bool = True) -> None:
    """End it, if there is one; without ``wait``, in the background."""
    global _executor
    with _lock:
        executor, _executor = _executor, None
    atexit.unregister(shutdown)
    if executor is None:
        return
    if wait:
        executor.stop()
    else:
        Thread(target=executor.stop, name="shutdown", daemon=True).start()

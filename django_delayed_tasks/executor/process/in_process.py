"""The executor that ``api.start`` runs in threads of the calling process."""

import atexit
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Thread
from typing import Any

from django.apps import apps
from django.core.management import ManagementUtility
from django.db import connections
from django.utils import autoreload

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.membership.lease import REFUSED
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.leases.acquiring import refuse_in_transaction
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

IN_THIS_THREAD = "run_due_tasks of django_delayed_tasks.testing, which needs no executor"
"""The parts that tests may use instead."""
SERVERS = ("runserver", "runserver_plus")
"""The commands that serve the project: Django's, and that of django-extensions."""
CHILDREN = (autoreload.DJANGO_AUTORELOAD_ENV, "WERKZEUG_RUN_MAIN")
"""The variables of the environment that are "true" in the process that a reloader of theirs starts again and again."""
_lock = Lock()
_executor: Executor | None = None
_of_parent: list[Executor | None] = []


def start(**options: Any) -> None:
    """Start the executor of this process. An executor of the parent process does not count as this process's.

    None is started while a command of ``manage.py`` loads the project, as by ``AppConfig.ready``, unless it serves it.

    Raises:
        TaskException: this process has an executor already, a live executor has its name, the caller is inside a
            transaction, the database is an SQLite database in memory, or freezegun has stopped the clocks.
        InvalidSetting: an option does not exist or has an invalid value.
    """
    global _executor
    forks.notice()
    if command := _loading_command():
        logger.info("start() starts no executor while manage.py %s loads the project", command)
        return
    with _lock:
        if _executor is not None:
            raise TaskException("this process runs an executor already; call shutdown() first")
        executor = Executor(from_settings(**options))
        refuse_if_no_executor_can_work(executor.options.database)
        _start(executor)
        _executor = executor
    atexit.register(shutdown)


def _loading_command() -> str:
    """Return the name of the command that is loading the project in this thread; "" if there is none, or it serves it.

    Of Django's server, the process that watches the code does not serve, nor does it end when the code changes.
    """
    frame = None if apps.ready else sys._getframe()
    while frame:
        if frame.f_code is ManagementUtility.execute.__code__:
            command = str(frame.f_locals.get("subcommand", ""))
            return "" if command in SERVERS and _is_serving() else command
        frame = frame.f_back
    return ""


def _is_serving() -> bool:
    return "--noreload" in sys.argv or any(os.environ.get(name) == "true" for name in CHILDREN)


def _start(executor: Executor) -> None:
    # In a thread of its own: a connection opened in the caller's thread would stay checked out of its pool, and would
    # be shared with the children of a server that loads the application before it forks.
    def begin() -> None:
        with kept_connections.of_thread(executor.options.database):
            executor.start()

    with ThreadPoolExecutor(1, "membership") as threads:
        threads.submit(begin).result()


def shutdown(wait: bool = True) -> None:
    """Stop the executor of this process, if there is one; without ``wait``, in the background."""
    global _executor
    forks.notice()
    with _lock:
        executor, _executor = _executor, None
    atexit.unregister(shutdown)
    if executor is None:
        return
    if wait:
        executor.stop()
    else:
        Thread(target=executor.stop, name="shutdown", daemon=True).start()


def refuse_if_no_executor_can_work(alias: str) -> None:
    """Refuse to start an executor where it could not work.

    Its threads, which have connections of their own, would not see the tasks of the caller; or they would wait forever.

    Raises:
        TaskException: the caller is inside a transaction, as the tests of a ``TestCase`` are, the database is an SQLite
            database in memory, or freezegun has stopped the clocks.
    """
    connection: Any = connections[alias]
    if any(getattr(block, "_from_testcase", False) for block in connection.atomic_blocks):
        raise TaskException(
            f"{REFUSED} in a TestCase, whose transaction is never committed, so that no executor sees the tasks: use "
            f"TransactionTestCase (with pytest-django, django_db(transaction=True)), or {IN_THIS_THREAD}"
        )
    if dialect_of(connection).is_in_memory:
        raise TaskException(
            f"{REFUSED} on an SQLite database in memory, where its threads do not see the tasks, or lock each other "
            f"out: use a file (for tests, name it in DATABASES[{alias!r}]['TEST']['NAME'])"
        )
    if clock.is_stopped():
        raise TaskException(
            f"{REFUSED} while freezegun stops the clock, so that no time passes for its threads: use time-machine, "
            f"travel of django_delayed_tasks.testing, or {IN_THIS_THREAD}"
        )
    refuse_in_transaction(alias, REFUSED)


def _forget() -> None:
    """Forget the executor in a forked child: it is the parent's, and the child must not touch it."""
    global _lock, _executor
    _lock = Lock()
    _of_parent.append(_executor)  # kept alive, or its sockets would be closed with a warning
    _executor = None


forks.forget_in_child(_forget)

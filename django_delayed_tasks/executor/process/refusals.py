"""Where no executor is started: where its threads would not see the tasks, or no time would pass for them."""

from typing import Any

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.membership.lease import REFUSED
from django_delayed_tasks.leases.acquiring import refuse_in_transaction
from django_delayed_tasks.store.sql.dialects.sqlite import is_in_memory

IN_THIS_THREAD = "run_due_tasks of django_delayed_tasks.testing, which needs no executor"
"""What tests may use instead."""


def refuse_useless(alias: str) -> None:
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
    if is_in_memory(connection):
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

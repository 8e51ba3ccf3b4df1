"""Where no executor is started: where its threads, which have connections of their own, would not see the tasks."""

from typing import Any

from django.db import connections

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.membership.lease import REFUSED
from django_delayed_tasks.leases.acquiring import refuse_in_transaction


def refuse_unseen(alias: str) -> None:
    """Refuse to start an executor where it would not see the tasks of its caller.

    Raises:
        TaskException: the database is an SQLite database in memory, or the caller is inside a transaction, as the tests
            of a ``TestCase`` are.
    """
    connection: Any = connections[alias]
    if connection.vendor == "sqlite" and _is_in_memory(connection):
        raise TaskException(
            f"{REFUSED} on an SQLite database in memory, where its threads do not see the tasks, or lock each other "
            f"out: use a file (for tests, name it in DATABASES[{alias!r}]['TEST']['NAME'])"
        )
    if any(getattr(block, "_from_testcase", False) for block in connection.atomic_blocks):
        raise TaskException(
            f"{REFUSED} in a TestCase, whose transaction is never committed, so that no executor sees the tasks: use "
            "TransactionTestCase (with pytest-django, django_db(transaction=True))"
        )
    refuse_in_transaction(alias, REFUSED)


def _is_in_memory(connection: Any) -> bool:
    return connection.is_in_memory_db() or ":memory:" in str(connection.settings_dict["NAME"])

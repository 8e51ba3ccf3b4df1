"""The system check W018: overdue tasks without an executor."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core import checks
from django.db import OperationalError, connection

from django_delayed_tasks import pause_queue
from django_delayed_tasks.checks.databases import by_an_executor
from django_delayed_tasks.store.sql.tables import EXECUTOR
from tests.admin.rows import NOW, executor, task
from tests.store.meters import statements

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def told() -> list[str]:
    """What the checks of the database say about overdue tasks."""
    messages = checks.run_checks(databases=["default"])
    return [message.msg for message in messages if message.id == "django_delayed_tasks.W018"]


def late(seconds: float, queue: str = "mail") -> None:
    when = NOW - timedelta(seconds=seconds)
    task(f"{queue} {seconds}", when, claim_at=when, queue=queue)


def test_overdue_without_an_executor() -> None:
    late(61)
    late(600, "slow")
    assert told() == [
        "In the database 'default', no live executor serves the queue 'slow': 1 task due, the first for 10 min.",
        "In the database 'default', no live executor serves the queue 'mail': 1 task due, the first for 1 min 1 s.",
    ]


def test_not_late_enough() -> None:
    late(60)
    assert told() == []


def test_served_or_paused() -> None:
    late(600)
    late(600, "slow")
    executor(queues=["mail"])
    pause_queue("slow")
    assert told() == []


def test_an_executor_that_starts_is_not_told() -> None:
    late(600)
    with by_an_executor(), statements() as sent:
        assert told() == []
    with statements() as sent_otherwise:
        assert len(told()) == 1
    assert len(sent) < len(sent_otherwise), "it does not look for them either"


@contextmanager
def without_column(table: str, name: str) -> Iterator[None]:
    """Hide a column, as if the migration that adds it had not been applied yet."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME COLUMN {name} TO hidden")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE {table} RENAME COLUMN hidden TO {name}")


@pytest.mark.django_db(transaction=True, available_apps=None)
def test_tables_of_an_older_release_can_be_migrated() -> None:
    """``migrate`` runs this check: an error would keep it from adding what is missing."""
    late(600)
    with without_column(EXECUTOR, "version"):
        assert told() == []
    assert len(told()) == 1


def test_any_other_error_is_reported() -> None:
    def broken(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "expires_at" in sql:
            raise OperationalError("disk I/O error")
        return execute(sql, params, many, context)

    late(600)
    with connection.execute_wrapper(broken):
        [message] = [message for message in checks.run_checks(databases=["default"]) if message.is_serious()]
    assert message.id == "django_delayed_tasks.E009"
    assert "disk I/O error" in message.msg


def test_the_queue_that_was_probably_meant_is_named() -> None:
    executor(queues=["mail"])
    late(600, "mial")
    [message] = [message for message in checks.run_checks(databases=["default"]) if "mial" in message.msg]
    assert message.hint == "Did you mean the queue “mail”? Otherwise, start an executor that serves it."

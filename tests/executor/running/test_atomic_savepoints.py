"""``atomic = True``: savepoints of the handler, and errors that it swallows."""

from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.sql.tables import EXECUTOR
from tests.executor.atomic_runs import NOBODY, effects, run_once, settled_later, write

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


class TestSavepoints:
    def test_what_a_savepoint_undoes(self) -> None:
        def handle(task: Any) -> None:
            write("before")
            with suppress(DatabaseError), transaction.atomic():
                write("inside")
                write("refused", **NOBODY)
            write("after")

        assert run_once(handle) is None
        assert effects() == ["before", "after"]

    def test_nested_blocks_are_no_commits(self) -> None:
        def handle(task: Any) -> None:
            with transaction.atomic(), transaction.atomic(savepoint=False):
                write()
            raise ValueError("after the inner blocks")

        assert settled_later(run_once(handle)) is NextState.RETRY
        assert effects() == []

    def test_a_durable_block_is_refused(self) -> None:
        def handle(task: Any) -> None:
            with transaction.atomic(durable=True):
                write()

        left = run_once(handle)
        assert left is not None
        assert "durable" in left.error
        assert effects() == []


class TestSwallowed:
    """Errors of the database that the handler catches outside of any savepoint."""

    def test_a_refused_statement(self) -> None:
        """PostgreSQL executes nothing more in such a transaction; the others undo the statement alone."""

        def handle(task: Any) -> None:
            write("before")
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute(f"UPDATE {EXECUTOR} SET threads = NULL")
            with suppress(DatabaseError):
                write("after")

        left = run_once(handle)
        if connection.vendor == "postgresql":
            assert settled_later(left) is NextState.RETRY
            assert effects() == []
        else:
            assert left is None
            assert effects() == ["before", "after"]

    def test_a_refused_save(self) -> None:
        """Django lets nothing follow a ``save()`` that failed, whatever the database."""

        def handle(task: Any) -> None:
            write("before")
            with suppress(DatabaseError):
                write("refused", **NOBODY)

        assert settled_later(run_once(handle)) is NextState.RETRY
        assert effects() == []

    def test_a_block_without_savepoint(self) -> None:
        def handle(task: Any) -> None:
            write("before")
            with suppress(ValueError), transaction.atomic(savepoint=False):
                raise ValueError

        left = run_once(handle)
        assert left is not None
        assert "can only be rolled back" in left.error
        assert settled_later(left) is NextState.RETRY
        assert effects() == []

    def test_rollback_that_was_asked_for(self) -> None:
        def handle(task: Any) -> None:
            write()
            transaction.set_rollback(True)

        assert settled_later(run_once(handle)) is NextState.RETRY
        assert effects() == []

    def test_a_closed_connection(self) -> None:
        def handle(task: Any) -> None:
            write("before")
            connection.close()
            with suppress(DatabaseError):
                write("after")

        assert settled_later(run_once(handle)) is NextState.RETRY
        assert effects() == []

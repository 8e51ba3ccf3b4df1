"""What a block of work cost the database.

Statements and commits are counted as Django sends them, rows and conflicts by the server's own counters (on SQLite, by
the connection's hooks).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

WRITING = ("INSERT ", "UPDATE ", "DELETE ")
OF_TRANSACTIONS = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


@dataclass
class Counts:
    """``rows``: index entries and rows that were looked at (SQLite: steps of its virtual machine); ``statements``:
    without those that begin and end transactions; ``commits``: of transactions that write; ``conflicts``: deadlocks.
    """

    rows: int = 0
    statements: int = 0
    commits: int = 0
    conflicts: int = 0

    def watch(self, connection: BaseDatabaseWrapper) -> Callable[[], None]:
        """Count the statements and commits of this connection; returns what ends it."""
        commit = connection._commit  # type: ignore[attr-defined]

        def execute(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
            self.statements += not sql.startswith(OF_TRANSACTIONS)
            if not connection.in_atomic_block:
                self.commits += writes(sql)
            return execute(sql, params, many, context)

        def counting_commit() -> Any:
            self.commits += 1
            return commit()

        connection.execute_wrappers.append(execute)
        connection._commit = counting_commit  # type: ignore[attr-defined]

        def end() -> None:
            connection.execute_wrappers.remove(execute)
            del connection._commit  # type: ignore[attr-defined]

        return end


def writes(sql: str) -> bool:
    """Whether the statement, outside of a transaction, is one that writes."""
    begin = sql.lstrip()
    return begin.startswith(WRITING) or (begin.startswith("WITH ") and any(word in sql for word in WRITING))


@contextmanager
def counted(connection: BaseDatabaseWrapper) -> Iterator[Counts]:
    """Count what this connection does inside the block, outside of a transaction; known when the block has ended.

    PostgreSQL counts for the whole database, so no other process may use it meanwhile.
    """
    connection.ensure_connection()
    counts = Counts()
    with _ROWS[connection.vendor](connection, counts):
        end = counts.watch(connection)
        try:
            yield counts
        finally:
            end()


@contextmanager
def _by_steps(connection: BaseDatabaseWrapper, counts: Counts) -> Iterator[None]:
    def step() -> int:
        counts.rows += 1
        return 0

    connection.connection.set_progress_handler(step, 1)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 1)


@contextmanager
def _by_difference(
    connection: BaseDatabaseWrapper, counts: Counts, read: Callable[[BaseDatabaseWrapper], tuple[int, int]]
) -> Iterator[None]:
    first, before = read(connection), read(connection)
    yield
    after = read(connection)
    # Reading the counters counts as well: the difference between two readings is subtracted.
    counts.rows, counts.conflicts = (z - y - (y - x) for x, y, z in zip(first, before, after, strict=True))


def _of_mysql(connection: BaseDatabaseWrapper) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        rows = sum(int(value) for name, value in cursor.fetchall() if name != "Handler_read_rnd_deleted")
    return rows, conflicts(connection)


def _of_postgres(connection: BaseDatabaseWrapper) -> tuple[int, int]:
    # Other sessions see the counts of a session when it ends, or after about a second:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT (SELECT COALESCE(SUM(seq_tup_read), 0) FROM pg_stat_user_tables)"
            " + (SELECT COALESCE(SUM(idx_tup_read), 0) FROM pg_stat_user_indexes)"
        )
        rows = int(cursor.fetchone()[0])
    return rows, conflicts(connection)


def conflicts(connection: BaseDatabaseWrapper) -> int:
    """Deadlocks so far, of the whole server (PostgreSQL: database); SQLite has none."""
    question = {
        "mysql": "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'",
        "postgresql": "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
        "sqlite": "SELECT 0",
    }
    with connection.cursor() as cursor:
        cursor.execute(question[connection.vendor])
        return int(cursor.fetchone()[0])


_ROWS: dict[str, Any] = {
    "sqlite": _by_steps,
    "mysql": lambda connection, counts: _by_difference(connection, counts, _of_mysql),
    "postgresql": lambda connection, counts: _by_difference(connection, counts, _of_postgres),
}

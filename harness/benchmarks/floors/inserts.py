"""The rows that ``add_task`` writes, written by the driver alone: one commit each, all in one, or 500 in a statement.

psycopg prepares a statement at its first execution, sqlite3 keeps what it has compiled; MySQLdb has no such thing. 500
rows are a list of values, but on PostgreSQL, where thousands of parameters are slow, an array for each column.
"""

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import MySQLdb
import psycopg

COLUMNS = (
    "biz_code, biz_num, biz_ext, queue, priority, when_time, claim_at, create_time, update_time,"
    " status, version, attempts, rescues, last_error, deferred_queue"
)
GIVEN = 9
REST = "0, 0, 0, 0, '', ''"
ARRAYS = ", ".join(f"%s::{kind}[]" for kind in ("text", "text", "jsonb", "text", "int", *["timestamptz"] * 4))
Row = Sequence[Any]


class Table:
    """The table of tasks, through a connection of the driver in autocommit."""

    def __init__(self, entry: dict[str, Any], table: str) -> None:
        mark = "?" if "sqlite" in entry["ENGINE"] else "%s"
        self._values = f"({', '.join([mark] * GIVEN)}, {REST})"
        self._into = f"INSERT INTO {table} ({COLUMNS})"
        self._insert = f"{self._into} VALUES "
        self._options: dict[str, Any] = {"prepare": True} if "postgres" in entry["ENGINE"] else {}
        self._cursor = connect(entry).cursor()

    def add(self, row: Row) -> None:
        """Insert by one statement, with a commit unless a transaction has begun."""
        self._cursor.execute(self._insert + self._values, row, **self._options)

    def add_all(self, rows: Sequence[Row]) -> None:
        """Insert all by one statement."""
        if self._options:
            columns = [list(column) for column in zip(*rows, strict=True)]
            self._cursor.execute(f"{self._into} SELECT u.*, {REST} FROM unnest({ARRAYS}) u", columns, **self._options)
            return
        values = [value for row in rows for value in row]
        self._cursor.execute(self._insert + ", ".join([self._values] * len(rows)), values, **self._options)

    def begin(self) -> None:
        self._cursor.execute("BEGIN")

    def commit(self) -> None:
        self._cursor.execute("COMMIT")


def row_of(code: str, num: str, data: Any, when: datetime) -> Row:
    """A new task's values."""
    now = datetime.now(UTC)
    moments = [moment.replace(tzinfo=None).isoformat(" ") for moment in (when, when, now, now)]
    return (code, num, json.dumps(data), "default", 0, *moments)


def connect(entry: dict[str, Any]) -> Any:
    """Connect in autocommit mode, with the session in UTC, as durable as Django's connection."""
    if "sqlite" in entry["ENGINE"]:
        connection = sqlite3.connect(entry["NAME"], isolation_level=None, timeout=20, check_same_thread=False)
        connection.executescript(entry["OPTIONS"]["init_command"])
        return connection
    account = {"host": entry["HOST"], "port": int(entry["PORT"]), "user": entry["USER"], "password": entry["PASSWORD"]}
    if "postgres" in entry["ENGINE"]:
        return psycopg.connect(dbname=entry["NAME"], autocommit=True, options="-c timezone=UTC", **account)
    connection = MySQLdb.connect(database=entry["NAME"], autocommit=True, charset="utf8mb4", **account)
    cursor = connection.cursor()
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.execute("SET SESSION time_zone = '+00:00'")
    return connection

"""The dialect of PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects.base import SQL, Column, ColumnType, Dialect

_TYPES = {"int": "bigint", "text": "text", "json": "jsonb", "moment": "bigint", "bool": "boolean"}
_IDLE = 0
"""The status of a session in no transaction, as of PQtransactionStatus."""


class PostgreSQL(Dialect):
    def wait_at_most(self, cursor: CursorWrapper, seconds: int) -> None:
        # LOCAL: behind a pooler in transaction mode, the next transaction may run in another session.
        if self.connection.in_atomic_block:
            cursor.execute(f"SET LOCAL lock_timeout = '{seconds:d}s'")

    def accepts_writes(self) -> bool:
        # On, too, while the server is a standby. FOR UPDATE locks nothing here: because of it, a splitter of reads and
        # writes asks the primary, which it would not do for SHOW, not even in a transaction that has written nothing.
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('transaction_read_only') FROM (SELECT 1) one FOR UPDATE")
            return bool(cursor.fetchone() == ("off",))

    def same(self, one: str, other: str) -> str:
        return f"{one} IS NOT DISTINCT FROM {other}"

    @property
    def holds_all_texts(self) -> bool:
        # A database without an encoding (SQL_ASCII) takes bytes as they come.
        encoding = self.connection.connection.info.parameter_status("server_encoding")
        return encoding in ("UTF8", "SQL_ASCII", None)  # which a pooler may not tell

    def is_in_transaction(self) -> bool | None:
        session = self.connection.connection
        return None if session.closed else int(session.info.transaction_status) != _IDLE

    def shifted(self, moment: str, by: timedelta) -> str:
        return f"({moment} + {by // timedelta(microseconds=1)} * INTERVAL '1 microsecond')"

    def received(self, column: Column, since: datetime) -> str:
        if column.type == "moment":  # in two parts: intervals are multiplied as floats, not exact beyond 285 years
            seconds, micros = f"v.{column.name} / 1000000", f"mod(v.{column.name}, 1000000)"
            passed = f"{seconds} * INTERVAL '1 second' + {micros} * INTERVAL '1 microsecond'"
            return f"({self.moment_literal(since)} + {passed})"
        return super().received(column, since)

    def look_up(self, table: str, condition: str) -> str:
        # With a plain join, PostgreSQL may read the whole other side for each row, because it underestimates how many
        # rows a fence matches. OFFSET keeps the subquery from being merged into the query.
        return f"CROSS JOIN LATERAL (SELECT * FROM {table} t WHERE {condition} OFFSET 0) t"

    def size(self, column: str) -> str:
        return f"OCTET_LENGTH({column}::text)"

    def json(self, expression: str) -> str:
        return f"{expression}::jsonb"

    def table(self, columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
        arrays = ", ".join(f"%s::{_TYPES[column.type]}[]" for column in columns)
        names = ", ".join(column.name for column in columns)
        texts = [_array(column.type, of_column) for column, of_column in zip(columns, values, strict=True)]
        return f"unnest({arrays}) AS v({names})", texts


class LikePostgreSQL(PostgreSQL):
    """The dialect of distributed databases that speak PostgreSQL's protocol, of what their documentation says alike."""

    skip_locked = PostgreSQL.for_update


def _array(kind: ColumnType, values: Sequence[Any]) -> str:
    """Return the text form of an array: the driver's own dumping of lists costs more than the rest of a settlement."""
    element = _quoted if kind in ("text", "json") else str
    return "{" + ",".join(["NULL" if value is None else element(value) for value in values]) + "}"


def _quoted(value: Any) -> str:
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'

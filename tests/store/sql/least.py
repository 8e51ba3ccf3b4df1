"""The least that a dialect has to say, on SQLite: no way of its own to claim, scan, look, or be told of tasks."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql.dialects.base import SQL, Column, Dialect, Errors
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE


class Least(Dialect):
    """SQLite as a database that the package does not know: compared and set, and read by a plain GROUP BY."""

    for_update = ""
    in_union = "SELECT * FROM ({})"
    errors = Errors(texts=("database is locked",))
    paused_queues = f"(SELECT json_group_array(queue) FROM {PAUSED_QUEUE})"

    @property
    def now(self) -> str:
        return self.moment_literal(clock.host_now())

    def moment_literal(self, moment: datetime) -> str:
        return f"'{moment.astimezone(UTC).replace(tzinfo=None)}'"

    def shifted(self, moment: str, by: timedelta) -> str:
        return f"django_format_dtdelta('+', {moment}, {by // timedelta(microseconds=1)})"

    def later(self, by: timedelta) -> str:
        return self.moment_literal(clock.host_now() + by)

    def received(self, column: Column, since: datetime) -> str:
        if column.type == "moment":
            return f"django_format_dtdelta('+', {self.moment_literal(since)}, v.{column.name})"
        return super().received(column, since)

    def greatest(self, one: str, other: str) -> str:
        return f"MAX({one}, {other})"

    def size(self, column: str) -> str:
        return f"LENGTH(CAST({column} AS BLOB))"

    def minutes(self, moment: str) -> str:
        return f"CAST(strftime('%%s', {moment}) AS INTEGER) / 60"

    def remainder(self, number: str, by: int) -> str:
        return f"({number}) %% {by}"

    def table(self, columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
        names = ", ".join([f"json_extract(value, '$[{i}]') AS {column.name}" for i, column in enumerate(columns)])
        return f"(SELECT {names} FROM json_each(%s)) v", [json.dumps(list(zip(*values, strict=True)), default=str)]

    def begin_writing(self, cursor: CursorWrapper, table: str) -> None:
        cursor.execute(f"DELETE FROM {table} WHERE id < 0")

    def accepts_writes(self) -> bool:
        return True

    def is_in_transaction(self) -> bool:
        return bool(self.connection.connection.in_transaction)

    def is_closed(self) -> bool:
        return False

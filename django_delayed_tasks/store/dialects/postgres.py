"""PostgreSQL."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.dialects.base import SQL, Column, Dialect

_TYPES = {"int": "bigint", "text": "text", "json": "jsonb", "moment": "timestamptz", "bool": "boolean"}


class PostgreSQL(Dialect):
    def wait_at_most(self, cursor: CursorWrapper, seconds: int) -> None:
        cursor.execute(f"SET LOCAL lock_timeout = '{seconds:d}s'")

    def later(self, by: timedelta) -> str:
        return f"({self.now} + {by // timedelta(microseconds=1)} * INTERVAL '1 microsecond')"

    def position(self, column: str) -> str:
        return f"strpos({column}, %s)"

    def json(self, expression: str) -> str:
        return f"{expression}::jsonb"

    def rows(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> SQL:
        arrays = ", ".join(f"%s::{_TYPES[c.type]}[]" for c in columns)
        names = ", ".join(c.name for c in columns)
        return f"unnest({arrays}) AS v({names})", [list(values) for values in zip(*rows, strict=True)]

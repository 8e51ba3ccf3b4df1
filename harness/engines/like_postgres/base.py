"""``"ENGINE": "harness.engines.like_postgres"``: CockroachDB or YugabyteDB, if PostgreSQL can stand in."""

import re
from typing import Any

from django.db import NotSupportedError
from django.db.backends.postgresql import base
from django.db.backends.utils import CursorWrapper

LACKING = re.compile(
    r"\b(LISTEN|UNLISTEN|NOTIFY|pg_notify|SKIP\s+LOCKED|NOWAIT|pg_(try_)?advisory\w*|pg_stat_activity|LOCK\s+TABLE)\b",
    re.IGNORECASE,
)
"""What one of them does not have, or only in other ways."""


class _Cursor(CursorWrapper):
    def execute(self, sql: Any, params: Any = None) -> Any:
        if found := LACKING.search(str(sql)):
            raise NotSupportedError(f"this database has no {found[0]}: {sql}")
        return super().execute(sql, params)


class DatabaseWrapper(base.DatabaseWrapper):
    vendor = "cockroachdb"
    display_name = "CockroachDB"

    def make_cursor(self, cursor: Any) -> CursorWrapper:
        return _Cursor(cursor, self)

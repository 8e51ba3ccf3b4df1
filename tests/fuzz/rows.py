"""Rows as this release never writes them: by hand, or by another release. Plain SQL writes them, past every check."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, connection, transaction
from hypothesis import strategies as st

from django_delayed_tasks.models import Task
from django_delayed_tasks.store.sql.dialects import dialect_of

CODE = "fuzz"
TABLE = Task._meta.db_table
ORDINARY: Mapping[str, Any] = {
    "biz_code": CODE, "biz_ext": None, "queue": "default", "priority": 0, "status": 0, "version": 0, "attempts": 0,
    "rescues": 0, "executor": 0, "last_error": "", "deferred_when": None, "deferred_biz_ext": None,
    "deferred_queue": "", "deferred_priority": None, "cancel_requested_at": None,
}  # fmt: skip
SMALL, WHOLE, BIG = 2**15, 2**31, 2**63
EARLY, LATE = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"

JSON = st.sampled_from(
    [
        "null",
        "[]",
        '"\\ud83d\\ude00"',
        "1e308",
        "-0.0",
        '{"token": [1]}',
        "[" * 90 + "]" * 90,
        "12345678901234567890123",
    ]
)
MOMENTS = st.sampled_from([EARLY, "1000-01-01 00:00:00", "1969-12-31 23:59:59", "2000-02-29 12:00:00", LATE])
ODD: Mapping[str, st.SearchStrategy[Any]] = {
    "biz_code": st.sampled_from([CODE, CODE, "", " ", "unknown", "os.system", "x" * 50]),
    "biz_ext": st.none() | JSON,
    "queue": st.sampled_from(["default", "default", "", " ", "\u202e", "x" * 50]),
    "priority": st.sampled_from([0, 0, 1, -1, 101, SMALL - 1, -SMALL]),
    "status": st.sampled_from([0, 0, 0, 1, 1, 2, 3, 99, -1, SMALL - 1, -SMALL]),
    "version": st.sampled_from([0, 1, -1, -BIG, BIG - 2, BIG - 1]),
    "attempts": st.sampled_from([0, 0, -1, -WHOLE, WHOLE - 2, WHOLE - 1]),
    "rescues": st.sampled_from([0, 0, -1, -WHOLE, WHOLE - 1]),
    "executor": st.sampled_from([None, 0, -1, 10**15, BIG - 1]),
    "when_time": MOMENTS,
    "claim_at": MOMENTS,
    "last_error": st.sampled_from(["", "\u202e\n" * 500]),
    "deferred_when": st.none() | MOMENTS,
    "deferred_biz_ext": st.none() | JSON,
    "deferred_queue": st.sampled_from(["", "default", "other"]),
    "deferred_priority": st.sampled_from([None, 0, SMALL - 1]),
    "cancel_requested_at": st.none() | MOMENTS,
}
ROWS = st.fixed_dictionaries({}, optional=dict(ODD))
"""What of a row is odd; the rest is as always."""


def write(num: str, odd: Mapping[str, Any]) -> bool:
    """Insert the row of this number; False if this database does not take it."""
    now = _now()
    times = dict.fromkeys(("when_time", "claim_at", "create_time", "update_time"), now - timedelta(seconds=1))
    row = {**ORDINARY, **times, "biz_num": num, **odd}
    marks = ", ".join(["%s"] * len(row))
    with suppress(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TABLE} ({', '.join(row)}) VALUES ({marks})", [_given(value) for value in row.values()]
        )
        return True
    return False


def _given(value: Any) -> Any:
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value


def _now() -> datetime:
    dialect = dialect_of(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {dialect.now}")
        return dialect.to_datetime(cursor.fetchone()[0])

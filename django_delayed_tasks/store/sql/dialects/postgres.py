"""The dialect of PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects.base import (
    SQL,
    Claiming,
    Column,
    ColumnType,
    Dialect,
    Errors,
    LevelKey,
    LevelRow,
    Notices,
)
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE, PENDING, TASK

_TYPES = {"int": "bigint", "text": "text", "json": "jsonb", "moment": "bigint", "bool": "boolean"}
_IDLE, _UNKNOWN = 0, 4
"""The status of a session in no transaction, and of one that is closed, as of PQtransactionStatus."""


_ENDS_QUEUE = "k.next_queue IS DISTINCT FROM k.queue"
_GAPS = {
    "t.queue < k.queue": "k.last_queue IS NULL",
    "t.queue = k.queue AND t.priority < k.priority": "k.last_queue IS DISTINCT FROM k.queue",
    "t.queue = k.queue AND t.priority > k.priority AND t.priority < k.next_priority": "k.next_queue = k.queue",
    "t.queue = k.queue AND t.priority > k.priority": _ENDS_QUEUE,
    "t.queue > k.queue AND t.queue < k.next_queue": _ENDS_QUEUE,
    "t.queue > k.queue": "k.next_queue IS NULL",
}
"""The gaps next to a known level, and the condition that it has such a gap."""


class PostgreSQL(Dialect):
    claiming: Claiming = "skip_locked"
    errors = Errors(passing=frozenset({"40001", "40P01"}), lock_timeouts=frozenset({"55P03"}))
    has_looks = True
    # Not clock_timestamp(): an expression that changes within a statement cannot bound an index scan.
    statement_time = "statement_timestamp()"
    latest_time = "clock_timestamp()"
    paused_queues = f"(SELECT json_agg(queue)::text FROM {PAUSED_QUEUE})"
    oldest_transaction = (
        "SELECT EXTRACT(EPOCH FROM clock_timestamp() - xact_start), pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL"
        " AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1"
    )
    usual_settings: Mapping[str, str] = {
        "transaction_read_only": "off", "default_transaction_read_only": "off", "statement_timeout": "0",
        "array_nulls": "on", "row_security": "on", "standard_conforming_strings": "on",
    }  # fmt: skip
    notices: Notices = "postgres"

    def moment_literal(self, moment: datetime) -> str:
        return f"TIMESTAMPTZ '{moment.astimezone(UTC).isoformat()}'"

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

    def returned_moment(self, column: str) -> str:
        return f"({column} AT TIME ZONE 'UTC')::text"  # Django makes a datetime in Python; texts in UTC have its order

    def is_in_transaction(self) -> bool | None:
        session = self.connection.connection
        told_by = getattr(session, "pgconn", None) or session.info  # of psycopg 2; that of psycopg 3 makes an object
        status: int = told_by.transaction_status
        return None if status == _UNKNOWN else status != _IDLE

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

    def read_levels(self, cursor: CursorWrapper, lanes: str) -> list[LevelRow]:
        first = f"SELECT lane, queue, priority, claim_at FROM {TASK} WHERE status = {PENDING} AND lane {lanes}"
        order = "ORDER BY lane, queue, priority, claim_at LIMIT 1"
        cursor.execute(f"""
        WITH RECURSIVE level AS (
            ({first} {order})
            UNION ALL
            SELECT next.lane, next.queue, next.priority, next.claim_at FROM level, LATERAL (
                {first} AND (lane, queue, priority) > (level.lane, level.queue, level.priority) {order}) next
        )
        SELECT queue, priority, claim_at, lane FROM level
        UNION ALL SELECT {self.paused_queues}, 0, {self.latest}, ''""")
        return [(lane, queue, priority, moment) for queue, priority, moment, lane in cursor.fetchall()]

    def look(
        self,
        cursor: CursorWrapper,
        watermarks: Mapping[LevelKey, datetime],
        idle: Collection[LevelKey],
        since: datetime,
    ) -> Sequence[Sequence[Any]]:
        # One index scan for each level and each gap. The server sorts the levels, by its collation. No row is compared
        # with the pair (queue, priority): such a scan would not end where the priority does.
        known = {**dict.fromkeys(idle, since), **watermarks}
        plain = [(queue, priority, moment) for (lane, queue, priority), moment in known.items() if not lane]
        others = [(*level, moment) for level, moment in known.items() if level[0]]
        pending = f"FROM {TASK} t WHERE t.status = {PENDING} AND t.lane = ''"
        gaps = " UNION ALL ".join(
            "SELECT 2, '', g.queue, g.priority, NULL FROM known k, LATERAL (SELECT t.queue, t.priority"
            f" {pending} AND {gap} ORDER BY t.queue, t.priority LIMIT 1) g WHERE {which}"
            for gap, which in _GAPS.items()
        )
        cursor.execute(
            f"""
        WITH known AS (
            SELECT queue, priority, watermark, lag(queue) OVER w AS last_queue, lead(queue) OVER w AS next_queue,
                lead(priority) OVER w AS next_priority
            FROM unnest(%s::text[], %s::int[], %s::timestamptz[]) AS v(queue, priority, watermark)
            WINDOW w AS (ORDER BY queue, priority))
        SELECT 1, '', k.queue, k.priority, e.claim_at FROM known k, LATERAL (
            SELECT t.claim_at {pending} AND t.queue = k.queue AND t.priority = k.priority AND t.claim_at >= k.watermark
            ORDER BY t.claim_at LIMIT 1) e
        UNION ALL SELECT 1, k.lane, k.queue, k.priority, e.claim_at
        FROM unnest(%s::text[], %s::text[], %s::int[], %s::timestamptz[]) AS k(lane, queue, priority, watermark),
        LATERAL (
            SELECT t.claim_at FROM {TASK} t WHERE t.status = {PENDING} AND t.lane = k.lane AND t.queue = k.queue
            AND t.priority = k.priority AND t.claim_at >= k.watermark ORDER BY t.claim_at LIMIT 1) e
        UNION ALL {gaps}
        UNION ALL SELECT 0, '', {self.paused_queues}, 0, {self.latest}""",
            [*_columns(plain, 3), *_columns(others, 4)],
        )
        return list(cursor.fetchall())

    def minutes(self, moment: str) -> str:
        return f"FLOOR(EXTRACT(EPOCH FROM {moment}) / 60)::bigint"

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

    claiming = "compare_and_set"
    has_looks = False
    oldest_transaction = ""
    notices = ""
    skip_locked = PostgreSQL.for_update


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(width)]


def _array(kind: ColumnType, values: Sequence[Any]) -> str:
    """Return the text form of an array: the driver's own dumping of lists costs more than the rest of a settlement."""
    element = _quoted if kind in ("text", "json") else str
    return "{" + ",".join(["NULL" if value is None else element(value) for value in values]) + "}"


def _quoted(value: Any) -> str:
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'

"""The dialect of MariaDB and MySQL."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.sql import clusters
from django_delayed_tasks.store.sql.charsets import CHARSET
from django_delayed_tasks.store.sql.dialects.base import CLAIM_INDEX, SQL, Column, Dialect, Errors, LevelKey, LevelRows
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE, PENDING, TASK

# Otherwise MariaDB gives texts from JSON_TABLE the database's default character set, with ? for what that set lacks.
_TEXT = "LONGTEXT CHARACTER SET utf8mb4"
_TYPES = {"int": "BIGINT", "text": _TEXT, "json": _TEXT, "moment": "BIGINT", "bool": "TINYINT"}


_CHARSETS = ("character_set_client", "character_set_connection", "character_set_results")
# How time passes within a statement is shown only as local time. It may jump by quarters of an hour, when daylight
# saving time begins or ends, and back, when the clock is set.
_PASSED = "MOD(GREATEST(0, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))), 900000000)"
_DAY = 86_400 * 1_000_000
"""Microseconds."""
_INTERRUPTED = {(1317,), (1969,), (3024,)}
"""The errors of a statement that was killed, or took too long."""
_LOCK_WAIT_TIMEOUT = 1205
"""The error for a lock that was waited for too long."""
_AUTO_INCREMENT = 1467
"""MariaDB's error for a deadlock whose victim was waiting for the next value of AUTO_INCREMENT."""
_ROLLED_BACK = {1213, _AUTO_INCREMENT, 1020, 1180, 1206, 1614, 3101}
"""Deadlocks and similar errors: InnoDB and clusters roll back the whole transaction, not only the statement."""
# A session has no database any more if that was dropped and made again, as when a backup is restored.
_READ_ONLY = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN"
    " ('read_only', 'super_read_only', 'innodb_read_only', 'transaction_read_only', 'tx_read_only')"
    " AND (Value <> 'OFF' OR DATABASE() IS NULL)"
)


class MySQL(Dialect):
    driving_join = "STRAIGHT_JOIN"
    errors = Errors(
        passing=frozenset({1213, _AUTO_INCREMENT, 1020, 3572, 3101}),
        lock_timeouts=frozenset({_LOCK_WAIT_TIMEOUT}),
        not_ready=frozenset({1047, 3781, 3783, 3796, 3797, 3798, 3799}),
        # The driver reports most of them as OperationalError, like an outage.
        refusals=frozenset(
            {1048, 1153, 1264, 1265, 1267, 1292, 1300, 1364, 1366, 1406, 1690, 3819, 3854, 4025, *range(3140, 3160)}
        ),
        # With it Group Replication ends a COMMIT for another node's. Its number is that of any failed COMMIT, of which
        # others may have taken effect.
        texts=("Got error 149 ",),
    )
    has_returning = False
    has_looks = True
    looks_find_other_levels = False
    statement_time = "UTC_TIMESTAMP(6)"
    latest_time = f"UTC_TIMESTAMP(6) + INTERVAL {_PASSED} MICROSECOND"
    # The names are the keys of an object, coalesced with a type that may be long: MariaDB silently truncates an array
    # at group_concat_max_len, and a UNION truncates a value whose declared length is no more than that.
    paused_queues = f"(SELECT COALESCE(JSON_OBJECTAGG(queue, 1), CAST(NULL AS CHAR(16000000))) FROM {PAUSED_QUEUE})"
    # The server shows the start in its own zone.
    oldest_transaction = (
        "SELECT TIMESTAMPDIFF(SECOND, CONVERT_TZ(trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()),"
        " trx_mysql_thread_id FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 1"
    )
    usual_settings = {
        "transaction_read_only": "OFF", "tx_read_only": "OFF", "sql_big_selects": "ON", "completion_type": "NO_CHAIN",
        "max_statement_time": "0.000000", "max_execution_time": "0", "max_join_size": str(2**64 - 1),
    }  # fmt: skip
    notices = "mysql"
    charset = CHARSET

    def caught_up(self) -> AbstractContextManager[None]:
        # Sessions wait at the beginning of a transaction only: in one that has begun already nothing would.
        cluster = None if self.connection.in_atomic_block else clusters.cluster_of(self.connection)
        if cluster is None:
            return nullcontext()
        if self._is_mariadb:
            return clusters.first_waits(self.connection, cluster)
        return clusters.session_waits(self.connection, cluster)

    def catch_up(self) -> None:
        if clusters.cluster_of(self.connection):
            with self.caught_up(), self.connection.cursor() as cursor:
                # With a table, though without a row of it: MySQL waits for nothing that reads none.
                cursor.execute(f"SELECT 1 FROM {TASK} WHERE id = 0")
                cursor.fetchone()

    @property
    def _is_mariadb(self) -> bool:
        return bool(self.connection.mysql_is_mariadb)  # type: ignore[attr-defined]

    @property
    def unlimited(self) -> str:  # type: ignore[override]
        return f"SET SESSION {'max_statement_time' if self._is_mariadb else 'max_execution_time'} = 0"

    def settings_of_session(self, names: Collection[str]) -> dict[str, str]:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({', '.join(map(repr, names))})")
            return dict(cursor.fetchall())

    def lossy_charsets(self) -> str:
        found = self.settings_of_session(_CHARSETS)
        return ", ".join(f"{name} = {value}" for name, value in found.items() if value not in (CHARSET, ""))

    def wait_at_most(self, cursor: CursorWrapper, seconds: int) -> None:
        session = self.connection.connection  # the driver's connection; a new one has the server's default limit
        if getattr(session, "waits_at_most", None) != seconds:
            # The second variable is for locks on whole tables, as while a table is altered.
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {seconds:d}, lock_wait_timeout = {seconds:d}")
            session.waits_at_most = seconds

    def accepts_writes(self) -> bool:
        # In a transaction that may write: otherwise a splitter of reads and writes asks a replica.
        with self.connection.cursor() as cursor:
            cursor.execute("START TRANSACTION READ WRITE")
            try:
                cursor.execute(_READ_ONLY)
                return not cursor.fetchall()
            finally:
                cursor.execute("ROLLBACK")

    def same(self, one: str, other: str) -> str:
        return f"{one} <=> {other}"

    def returned_moment(self, column: str) -> str:
        return f"CAST({column} AS CHAR)"  # mysqlclient makes a datetime in Python, ten times slower

    def has_lost_transaction(self, error: DatabaseError) -> bool:
        code = error.args[0] if error.args else None
        return code in _ROLLED_BACK or (code == _LOCK_WAIT_TIMEOUT and self._rolls_back_on_timeout())

    def _rolls_back_on_timeout(self) -> bool:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT @@innodb_rollback_on_timeout")
            return bool(cursor.fetchone()[0])

    def is_in_transaction(self) -> bool | None:
        session = self.connection.connection  # whose driver cannot tell of one that a BEGIN has begun
        return not session.get_autocommit() if session.open else None

    # By days and the rest of one, as some servers refuse intervals of more units than 31 bits hold.
    def shifted(self, moment: str, by: timedelta) -> str:
        return f"({moment} + INTERVAL {by.days} DAY + INTERVAL {by.seconds}.{by.microseconds:06d} SECOND)"

    def table(self, columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
        if not clusters.asked_once(self.connection, _reads_json_tables):
            return _union(columns, values)
        paths = ", ".join(f"{c.name} {_TYPES[c.type]} PATH '$[{i}]'" for i, c in enumerate(columns))
        text = json.dumps(list(zip(*values, strict=True)), default=str)
        # The text itself is ASCII. Without CONVERT, MariaDB loses escaped characters that the connection's set lacks.
        return f"JSON_TABLE(CONVERT(%s USING utf8mb4), '$[*]' COLUMNS({paths})) v", [text]

    def received(self, column: Column, since: datetime) -> str:
        if column.type == "moment":
            sent = f"v.{column.name}"
            passed = f"INTERVAL {sent} DIV {_DAY} DAY + INTERVAL MOD({sent}, {_DAY}) * 0.000001 SECOND"
            return f"({self.moment_literal(since)} + {passed})"
        return super().received(column, since)

    def stored(self, moment: datetime) -> str:
        # The same as adapt_datetimefield_value, at a tenth of its cost.
        return str(moment.astimezone(UTC).replace(tzinfo=None))

    # Without a hint the optimizer reads a small table through the claim index, whose entries every add moves. This
    # causes thousands of deadlocks; by primary key there are hardly any (docs/decisions/0002).
    def by_key(self, table: str) -> str:
        return f"{table} FORCE INDEX (PRIMARY)"

    def by_index(self, table: str, index: str) -> str:
        return f"{table} FORCE INDEX ({index})"

    # MariaDB prefers equalities to a range of the same index even where the range is narrower: it would read a level
    # from its start, whatever the watermark. So the condition has no equality, and the order is the index's own.
    def exactly(self, column: str, value: int) -> str:
        return f"{column} >= {value:d} AND {column} <= {value:d}"

    def rows_of(self, queue: str, priority: int, lane: str = "") -> LevelRows:
        columns = {"status": PENDING, "lane": lane, "queue": queue, "priority": priority}
        return LevelRows(
            f"{TASK} FORCE INDEX (ddt_task_claim)",
            " AND ".join(f"{column} >= %s AND {column} <= %s" for column in columns),
            [value for value in columns.values() for _ in range(2)],
            CLAIM_INDEX,
        )

    def look(
        self,
        cursor: CursorWrapper,
        watermarks: Mapping[LevelKey, datetime],
        idle: Collection[LevelKey],
        since: datetime,
    ) -> Sequence[Sequence[Any]]:
        # One index range for each level that had tasks; the next full scan finds the others. InnoDB reads past the end
        # of a range until it finds an entry that is not deleted, and past an empty level the finished tasks may come.
        # The version is selected, and multiplied by 0, so that the index does not cover the query: when MySQL's
        # statistics take a table of finished tasks for an empty one, it reads all of a covering index instead of a
        # range of it.
        branches: list[str] = []
        parameters: list[Any] = []
        for (lane, queue, priority), watermark in watermarks.items():
            rows = self.rows_of(queue, priority, lane)
            branches.append(
                f"(SELECT 1 + 0 * version, lane, queue, priority, claim_at FROM {rows.table} WHERE {rows.condition}"
                f" AND claim_at >= {self.moment_literal(watermark)} ORDER BY {', '.join(rows.order)} LIMIT 1)"
            )
            parameters += rows.parameters
        branches.append(f"(SELECT 0, '', {self.paused_queues}, 0, {self.latest})")
        cursor.execute(" UNION ALL ".join(branches), parameters)
        return list(cursor.fetchall())

    def minutes(self, moment: str) -> str:
        return f"TIMESTAMPDIFF(MINUTE, TIMESTAMP'1970-01-01 00:00:00', {moment})"

    def delete(self, table: str) -> str:
        return f"DELETE {table} FROM {self.by_key(table)}"

    # InnoDB locks the index entry through which it finds a row, then the row; a DELETE locks the row, then its other
    # entries. A caller finds a task by its identity, so locking it in another order would cause a deadlock whose victim
    # is the caller. The LIMIT keeps the inner SELECT, which locks nothing, from being merged into the outer one.
    def to_lock(self, table: str, condition: str) -> str:
        identities = f"SELECT biz_code, biz_num FROM {table} FORCE INDEX (PRIMARY) WHERE {condition} LIMIT {2**62}"
        return (
            f"({identities}) i STRAIGHT_JOIN {table} t FORCE INDEX (ddt_task_identity)"
            f" ON t.biz_code = i.biz_code AND t.biz_num = i.biz_num"
        )

    @staticmethod
    def new(column: str) -> str:
        return f"VALUES({column})"

    def on_conflict(self, assignments: str, identity: str = "") -> str:
        return f" ON DUPLICATE KEY UPDATE {assignments}"

    def if_absent(self, identity: str) -> str:
        return ""  # IGNORE would also hide that the connection's character set cannot pass a text

    def bulk_insert(self, if_exists: IfExists, assignments: str) -> tuple[str, str]:
        if if_exists is IfExists.REPLACE:
            return "INSERT", self.on_conflict(assignments)
        # With IGNORE, the affected rows are the new ones; validation rules out all other errors that it would hide.
        return ("INSERT", "") if if_exists is IfExists.RAISE else ("INSERT IGNORE", "")


PROBE = "SELECT v.x FROM JSON_TABLE('[[1]]', '$[*]' COLUMNS(x BIGINT PATH '$[0]')) v"


def _reads_json_tables(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the server has JSON_TABLE, which TiDB and Vitess lack."""
    try:
        with connection.wrap_database_errors, connection.connection.cursor() as cursor:
            cursor.execute(PROBE)
            return bool(cursor.fetchall())
    except DatabaseError as error:
        if error.args[:1] in _INTERRUPTED or not connection.is_usable():  # then it is no answer
            raise
        return False


def _union(columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
    """Return the rows as a SELECT each, which every server reads."""
    parameters: list[Any] = []
    names = [f" AS {column.name}" for column in columns]
    selects = []
    for row in zip(*values, strict=True):
        fields = []
        for column, value, name in zip(columns, row, names, strict=True):
            if value is None:
                fields.append(f"NULL{name}")
            elif column.type in ("text", "json"):
                parameters.append(value)
                fields.append(f"%s{name}")
            else:
                fields.append(f"{int(value)}{name}")
        selects.append(f"SELECT {', '.join(fields)}")
        names = [""] * len(columns)
    return f"({' UNION ALL '.join(selects)}) v", parameters

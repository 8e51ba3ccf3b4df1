"""The dialect of SQLite, and the turns in which the threads of a process write."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from sqlite3 import Error, OperationalError
from threading import RLock, Timer
from typing import Any, Final

from django.db import DatabaseError
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql.dialects.base import SQL, Column, Dialect
from django_delayed_tasks.support import forks

MAX_TURN: Final = 5.0
"""Seconds that a thread waits for another one's transaction to end; then it tries, as threads of other processes do."""

LONG: Final = 0.5
"""Seconds after which a statement is interrupted whose transaction is to end: SQLite executes one after the other."""

_turns: defaultdict[str, Any] = defaultdict(RLock)
"""By alias: the lock of the thread that is in a transaction of this package, which is not part of a caller's."""
forks.forget_in_child(_turns.clear)


def is_in_memory(connection: Any) -> bool:
    """Return whether this connection's database is one of SQLite that is in memory."""
    if connection.vendor != "sqlite":
        return False
    return connection.is_in_memory_db() or ":memory:" in str(connection.settings_dict["NAME"])


def _end_transaction(session: Any) -> None:
    session.execute("PRAGMA query_only = ON")  # else what its thread writes after the rollback would be committed
    session.rollback()


class SQLite(Dialect):
    for_update = ""
    in_union = "SELECT * FROM ({})"
    driving_join = "CROSS JOIN"

    @property
    def now(self) -> str:
        return f"'{clock.host_now().replace(tzinfo=None)}'"

    def moment_literal(self, moment: datetime) -> str:
        return f"'{moment.astimezone(UTC).replace(tzinfo=None)}'"

    def stored(self, moment: datetime) -> str:
        # The same as adapt_datetimefield_value, at a tenth of its cost.
        return str(moment.astimezone(UTC).replace(tzinfo=None))

    def sent_moments(self, moments: Sequence[datetime | None], since: datetime) -> Sequence[Any]:
        return [None if moment is None else self.stored(moment) for moment in moments]

    def moment(self, when: datetime | timedelta | None) -> SQL:
        # Never a literal: sqlite3 finds prepared statements by their text.
        if not isinstance(when, datetime):
            when = clock.host_now() + (when or timedelta())
        return "%s", [self.stored(when)]

    def begin_writing(self, cursor: CursorWrapper, table: str) -> None:
        # A deferred transaction that reads and then writes fails at once if another connection wrote in between,
        # whatever the timeout; one whose first statement is a write waits. This DELETE matches no row.
        cursor.execute(f"DELETE FROM {table} WHERE id < 0")

    def size(self, column: str) -> str:
        return f"LENGTH(CAST({column} AS BLOB))"

    @contextmanager
    def turn(self) -> Iterator[None]:
        # SQLite has no queue for its write lock: a thread that finds it taken sleeps, longer each time, while others
        # take it. This lock is a courtesy, and its limit ends any deadlock with code that a thread runs in its turn.
        turn = _turns[self.connection.alias]
        is_mine = turn.acquire(timeout=MAX_TURN)
        try:
            yield
        finally:
            if is_mine:
                turn.release()

    def accepts_writes(self) -> bool:
        # Not if the file was read-only when it was opened, or has been replaced by another one. That shows only when a
        # page is to be written.
        with self.connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout")
            [patience] = cursor.fetchone()
            cursor.execute("PRAGMA busy_timeout = 0")
            try:
                return self._can_change_a_page(cursor)
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {patience:d}")

    def _can_change_a_page(self, cursor: CursorWrapper) -> bool:
        try:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                cursor.execute("PRAGMA user_version = 1")
            finally:
                cursor.execute("ROLLBACK")
        except DatabaseError as error:
            return "locked" in str(error)  # by another writer
        return True

    def has_lost_transaction(self, error: DatabaseError) -> bool:
        # As after SQLITE_FULL and SQLITE_IOERR, among others: sqlite.org/lang_transaction.html.
        return not self.connection.connection.in_transaction

    def is_in_transaction(self) -> bool | None:
        try:
            return bool(self.connection.connection.in_transaction)
        except Error:
            return None

    def blocks_writers(self) -> bool:
        return bool(self.is_in_transaction())

    def cut_off(self) -> None:
        session = self.connection.connection
        interruption = Timer(LONG, session.interrupt)  # not at once: it also ends what follows, if rows are unread
        interruption.start()
        try:
            _end_transaction(session)
        except OperationalError:  # the interruption has met this thread's statement, too
            _end_transaction(session)
        finally:
            interruption.cancel()

    def shifted(self, moment: str, by: timedelta) -> str:
        return f"django_format_dtdelta('+', {moment}, {by // timedelta(microseconds=1)})"

    def later(self, by: timedelta) -> str:
        return self.moment_literal(clock.host_now() + by)

    def greatest(self, one: str, other: str) -> str:
        return f"MAX({one}, {other})"

    def table(self, columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
        names = ", ".join([f"json_extract(value, '$[{i}]') AS {column.name}" for i, column in enumerate(columns)])
        text = json.dumps(list(zip(*values, strict=True)), default=str)
        return f"(SELECT {names} FROM json_each(%s)) v", [text]

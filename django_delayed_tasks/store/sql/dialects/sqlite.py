"""The dialect of SQLite, and the turns in which the threads of a process write."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from sqlite3 import Error, OperationalError
from threading import RLock, Timer
from typing import Any, Final

from django.db import DatabaseError
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql.dialects.base import SQL, Column, Dialect, Errors, LevelRow
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE, PENDING, TASK
from django_delayed_tasks.support import forks

MAX_TURN: Final = 5.0
"""Seconds that a thread waits for another one's transaction to end; then it tries, as threads of other processes do."""

LONG: Final = 0.5
"""Seconds after which a statement is interrupted whose transaction is to end: SQLite executes one after the other."""

_turns: defaultdict[str, Any] = defaultdict(RLock)
"""By alias: the lock of the thread that is in a transaction of this package, which is not part of a caller's."""
forks.forget_in_child(_turns.clear)


def _end_transaction(session: Any) -> None:
    session.execute("PRAGMA query_only = ON")  # else what its thread writes after the rollback would be committed
    session.rollback()


class SQLite(Dialect):
    for_update = ""
    in_union = "SELECT * FROM ({})"
    driving_join = "CROSS JOIN"
    claiming = "sole_writer"
    errors = Errors(texts=("database is locked", "database table is locked"))
    paused_queues = f"(SELECT json_group_array(queue) FROM {PAUSED_QUEUE})"
    notices = "sqlite"
    write_modes = ("IMMEDIATE", "EXCLUSIVE")
    show_setting = "PRAGMA"
    usual_settings = {"count_changes": "0", "query_only": "0", "trusted_schema": "1"}

    @property
    def is_in_memory(self) -> bool:  # type: ignore[override]
        connection: Any = self.connection
        return connection.is_in_memory_db() or ":memory:" in str(connection.settings_dict["NAME"])

    @property
    def now(self) -> str:  # its own clock has only milliseconds, and all processes share one host
        return f"'{clock.host_now().replace(tzinfo=None)}'"

    def moment_literal(self, moment: datetime) -> str:
        return f"'{moment.astimezone(UTC).replace(tzinfo=None)}'"

    def stored(self, moment: datetime) -> str:
        # The same as adapt_datetimefield_value, at a tenth of its cost.
        in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
        return str(in_utc.replace(tzinfo=None))

    def returned_moment(self, column: str) -> str:
        return f"({column} || '')"  # for a column itself, Django's converter calls three functions

    def sent_moments(self, moments: Sequence[datetime | None], since: datetime) -> Sequence[Any]:
        # Like stored(), but the text of a second is made once: most moments of a batch are in the same one.
        texts: list[str | None] = []
        second, text = clock.EPOCH, self.stored(clock.EPOCH)
        for moment in moments:
            if moment is None or moment.tzinfo is not UTC:
                texts.append(None if moment is None else self.stored(moment))
                continue
            passed = moment - second
            if passed.seconds or passed.days:
                second = moment.replace(microsecond=0)
                passed, text = moment - second, self.stored(second)
            micros = passed.microseconds
            texts.append(f"{text}.{micros:06d}" if micros else text)
        return texts

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

    def read_levels(self, cursor: CursorWrapper, lanes: str) -> list[LevelRow]:
        # Three probes for the next level: SQLite reads a range of (queue, priority) from the start of the queue.
        first = f"SELECT n.id FROM {TASK} n WHERE n.status = {PENDING}"
        order = "ORDER BY n.lane, n.queue, n.priority, n.claim_at, n.id LIMIT 1"
        cursor.execute(f"""
        WITH RECURSIVE level(id) AS (
            SELECT ({first} AND n.lane {lanes} {order})
            UNION ALL
            SELECT coalesce(
                ({first} AND n.lane = t.lane AND n.queue = t.queue AND n.priority > t.priority {order}),
                ({first} AND n.lane = t.lane AND n.queue > t.queue {order}),
                ({first} AND n.lane > t.lane AND n.lane {lanes} {order}))
            FROM level CROSS JOIN {TASK} t ON t.id = level.id
        )
        SELECT t.queue, t.priority, t.claim_at, t.lane FROM level CROSS JOIN {TASK} t ON t.id = level.id
        UNION ALL SELECT {self.paused_queues}, 0, NULL, NULL""")
        *rows, (paused, *_) = cursor.fetchall()
        levels = [(lane, queue, priority, moment) for queue, priority, moment, lane in rows]
        return [*levels, ("", paused, 0, clock.host_now())]

    def minutes(self, moment: str) -> str:
        return f"CAST(strftime('%%s', {moment}) AS INTEGER) / 60"

    def remainder(self, number: str, by: int) -> str:
        return f"({number}) %% {by}"

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

    def cut_off(self, abandon: Callable[[], bool]) -> None:
        session = self.connection.connection
        if session is None or not self.is_in_transaction() or not abandon():
            return
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

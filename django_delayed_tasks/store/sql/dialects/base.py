"""The base dialect: the SQL fragments that every database has, in the form that most of them share."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.utils.module_loading import import_string

from django_delayed_tasks import clock
from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.sql.tables import PENDING, TASK

ColumnType = Literal["int", "text", "json", "moment", "bool"]
SQL = tuple[str, list[Any]]
"""An SQL fragment and its parameters."""


class Column(NamedTuple):
    """A column of the rows that the client sends along with a statement."""

    name: str
    type: ColumnType


class SentRows(NamedTuple):
    """Rows that the client sends along: a FROM item named ``v``, its parameters, and an expression for each column."""

    source: str
    parameters: list[Any]
    column: dict[str, str]

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


Claiming = Literal["compare_and_set", "skip_locked", "sole_writer"]
"""The name of a claiming strategy."""
Notices = Literal["", "mysql", "postgres", "sqlite"]
"""The name of a way of notices."""
LevelKey = tuple[str, str, int]
"""A level as (lane, queue, priority)."""
LevelRow = tuple[str, str, int, Any]
"""A level and the earliest moment at which one of its tasks may be claimed, as the driver returns that."""


CLAIM_INDEX: Final = ("status", "lane", "queue", "priority", "claim_at", "id")
"""The columns of the claim index: levels, and within a level the order in which its tasks are claimed."""
IN_LEVEL: Final = CLAIM_INDEX[4:]


class LevelRows(NamedTuple):
    """SQL fragments that find the pending rows of one level, to be ordered by ``order``."""

    table: str
    condition: str
    parameters: list[Any]
    order: tuple[str, ...]


_WORD = re.compile(r"[A-Za-z0-9_-]{0,100}")
_KEPT_AS: Final = "_ddt_dialect"
"""The attribute of a connection that keeps its dialect."""
_FOLDER: Final = "django_delayed_tasks.store.sql.dialects"
PATHS: Final = {
    "mysql": f"{_FOLDER}.mysql.MySQL",
    "postgresql": f"{_FOLDER}.postgres.PostgreSQL",
    "cockroachdb": f"{_FOLDER}.postgres.LikePostgreSQL",
    "yugabyte": f"{_FOLDER}.postgres.LikePostgreSQL",
    "sqlite": f"{_FOLDER}.sqlite.SQLite",
}
"""By the vendor that a backend names: the class of the dialect, which is imported when it is needed."""


class Errors(NamedTuple):
    """The errors of a database that are told apart, by their numbers or by the SQLSTATE.

    Attributes:
        passing: deadlocks and the like: the same transaction may succeed if it is tried again at once.
        lock_timeouts: a row stayed locked for longer than the connection waits.
        not_ready: those of a node that is no part of its cluster now, and has not executed the statement.
        refusals: those about data that the driver does not report as a DataError or IntegrityError.
        texts: what such errors as the first ones say that have no number of their own.
    """

    passing: frozenset[int | str] = frozenset()
    lock_timeouts: frozenset[int | str] = frozenset()
    not_ready: frozenset[int | str] = frozenset()
    refusals: frozenset[int | str] = frozenset()
    texts: tuple[str, ...] = ()


class Dialect:
    """SQL fragments for one connection; :func:`dialect_of` returns the one of its server."""

    for_update = " FOR UPDATE"
    in_union = "({})"
    """The form of a SELECT with an order and a limit in a union. Not as a derived table: MariaDB would write a
    temporary table on disk for each that has long texts.
    """
    driving_join = "JOIN"
    """The join that reads its left side first."""
    claiming: Claiming = "compare_and_set"
    """The name of the claiming strategy, which was chosen by measurement; the first is correct on every database."""
    errors = Errors()
    has_returning = True
    """Whether INSERT and UPDATE can return the rows that they have written, and upserts may have a condition."""
    has_looks = False
    """Whether there are looks at known levels, for databases on which a full scan may be slow."""
    looks_find_other_levels = True
    """Whether what is read between full scans also shows levels that had no tasks when they were last read."""
    statement_time: str
    """The expression for the time at which the statement began, by the database's clock; an index scan may end at it.

    If there is none that has microseconds, :attr:`now` is to be overridden.
    """
    latest_time = ""
    """An expression for the time that may advance within the statement; empty if there is none."""
    paused_queues: str
    """A scalar subquery for the names of the paused queues, as the JSON text of an array, or of an object by them."""
    oldest_transaction = ""
    """The SELECT for the age of the oldest open transaction in seconds, and for the number of its session; empty if
    the database does not tell.
    """
    unlimited = ""
    """The statement after which the session's statements may take as long as they do; empty if that needs none."""
    usual_settings: Mapping[str, str] = {}
    """Settings of a session that make it refuse statements or change their effect, and their usual values."""
    show_setting = "SHOW"
    """The statement that, followed by the name of a setting, returns its value in the session."""
    notices: Notices = ""
    """The name of the way in which executors in other processes are told of new tasks; empty if they only poll."""
    charset = ""
    """The value that the driver's option ``charset`` must have; empty if there is no such option."""
    write_modes: tuple[str, ...] = ()
    """The values of the option ``transaction_mode`` with which a transaction begins as the writer."""
    is_in_memory = False
    """Whether the database is gone with the process, and other threads may not see it."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    @property
    def now(self) -> str:
        """The expression for the current time by the database's clock."""
        return self.moment_literal(clock.host_now()) if clock.is_told() else self.statement_time

    @property
    def latest(self) -> str:
        """The expression for the current time that may advance within the statement, for use in its result only."""
        return self.now if clock.is_told() else self.latest_time or self.now

    def read_now(self, cursor: CursorWrapper) -> datetime:
        """Return the current time by the database's clock."""
        cursor.execute(f"SELECT {self.now}")
        return self.to_datetime(cursor.fetchone()[0])

    def begin_writing(self, cursor: CursorWrapper, table: str) -> None:
        """Become the writer before the first read of a transaction, on databases where that matters."""

    def caught_up(self) -> AbstractContextManager[None]:
        """Make the first statement in the block see all that its cluster has committed, where there is a cluster."""
        return nullcontext()

    def catch_up(self) -> None:
        """Wait until the node shows what its cluster has committed, where there is a cluster."""

    def turn(self) -> AbstractContextManager[None]:
        """Wait until no other thread of this process is in such a block, on databases with one writer at a time."""
        return nullcontext()

    def wait_at_most(self, cursor: CursorWrapper, seconds: int) -> None:
        """Limit how long the statements of this transaction wait for a lock.

        On MariaDB and MySQL the limit is the connection's, so a transaction is not needed; PostgreSQL has none outside
        of one, and SQLite, which has no row locks, never.
        """

    def same(self, one: str, other: str) -> str:
        """Return the condition that two expressions have the same value or are both NULL."""
        return f"{one} IS {other}"

    @property
    def skip_locked(self) -> str:
        """The end of a locking read that leaves out rows which other transactions have locked."""
        skips = self.connection.features.has_select_for_update_skip_locked
        return f"{self.for_update} SKIP LOCKED" if skips else self.for_update

    def has_lost_transaction(self, error: DatabaseError) -> bool:
        """Return whether the server, in addition to reporting this error, has rolled back the whole transaction."""
        return False

    def accepts_writes(self) -> bool:
        """Return whether the session of this connection, which is open and in no transaction, accepts writes.

        Raises:
            django.db.Error: it does not work at all.
        """
        raise NotImplementedError

    def lossy_charsets(self) -> str:
        """Return the variables through which this connection loses characters; "" if it loses none."""
        return ""

    @property
    def holds_all_texts(self) -> bool:
        """Whether the open connection's database can store every character; it is asked by no statement."""
        return True

    def cut_off(self, abandon: Callable[[], bool]) -> None:
        """End, from another thread, a transaction that keeps all others from writing, if ``abandon()`` agrees.

        The thread itself can then write no more.
        """

    def settings_of_session(self, names: Collection[str]) -> dict[str, str]:
        """Return the values of these settings in the session, for the ones that this server has."""
        with self.connection.cursor() as cursor:
            found = {}
            for name in names:
                cursor.execute(f"{self.show_setting} {name}")
                found[name] = str(cursor.fetchone()[0])
            return found

    def is_in_transaction(self) -> bool | None:
        """Return whether the session is in a transaction, as its driver tells without a statement; None if closed."""
        raise NotImplementedError

    def shifted(self, moment: str, by: timedelta) -> str:
        """Return an expression for the moment ``by`` after another, which is an expression, too."""
        raise NotImplementedError

    def later(self, by: timedelta) -> str:
        """Return an expression without parameters for the moment ``by`` after now."""
        return self.shifted(self.now, by)

    def moment(self, when: datetime | timedelta | None) -> SQL:
        """Return an expression, and its parameters, for a moment, an offset from now, or None for now."""
        if when is None:
            return self.now, []
        if isinstance(when, timedelta):
            return self.later(when), []
        return "%s", [self.stored(when)]

    def stored(self, moment: datetime) -> Any:
        """Return the moment as a parameter, in the form in which Django stores it."""
        return self.connection.ops.adapt_datetimefield_value(moment)

    def greatest(self, one: str, other: str) -> str:
        """Return the expression for the later of two moments, neither of them NULL."""
        return f"GREATEST({one}, {other})"

    def by_key(self, table: str) -> str:
        """Return the table, with a hint to find its rows by primary key where the database needs one."""
        return table

    def by_index(self, table: str, index: str) -> str:
        """Return the table, with a hint to find its rows through this index where the database needs one."""
        return table

    def exactly(self, column: str, value: int) -> str:
        """Return the condition that a column of an index has this value, if the next column bounds what is read."""
        return f"{column} = {value:d}"

    def rows_of(self, queue: str, priority: int, lane: str = "") -> LevelRows:
        """Return the fragments that read the pending rows of one level through the claim index, from a moment on."""
        condition = f"status = {PENDING} AND lane = %s AND queue = %s AND priority = %s"
        return LevelRows(TASK, condition, [lane, queue, priority], IN_LEVEL)

    def read_levels(self, cursor: CursorWrapper, lanes: str) -> list[LevelRow]:
        """Read every level of the lanes under this condition, by a full scan.

        The current time comes last, as a level whose queue is the JSON text of the paused queues: one statement reads
        everything where the database allows it, and it reads the clock when it has read everything else.
        """
        # status <= PENDING, not =: for an equality MariaDB prefers a ref access that reads every matching entry.
        cursor.execute(
            f"SELECT status, lane, queue, priority, MIN(claim_at) FROM {TASK}"
            f" WHERE status <= {PENDING} AND lane {lanes} GROUP BY status, lane, queue, priority"
            f" UNION ALL SELECT -1, '', {self.paused_queues}, 0, {self.latest}"
        )
        return [(lane, queue, priority, moment) for _, lane, queue, priority, moment in cursor.fetchall()]

    def look(
        self,
        cursor: CursorWrapper,
        watermarks: Mapping[LevelKey, datetime],
        idle: Collection[LevelKey],
        since: datetime,
    ) -> Sequence[Sequence[Any]]:
        """Read the earliest task of each known level, from its watermark on; those that were ``idle`` from ``since``.

        The rows are (kind, lane, queue, priority, moment). Kind 1 is a known level, 2 one that was not known; the last
        row has the paused queues and the current time, as :meth:`read_levels` returns them.
        """
        raise NotImplementedError

    def minutes(self, moment: str) -> str:
        """Return the expression for the number of whole minutes from 1970 to a moment."""
        raise NotImplementedError

    def remainder(self, number: str, by: int) -> str:
        """Return the expression for the remainder of a division."""
        return f"MOD({number}, {by})"

    def update(self, table: str) -> str:
        """Return the beginning of an UPDATE that finds its rows by primary key."""
        return f"UPDATE {self.by_key(table)}"

    def delete(self, table: str) -> str:
        """Return the beginning of a DELETE that finds its rows by primary key."""
        return f"DELETE FROM {table}"

    def to_lock(self, table: str, condition: str) -> str:
        """Return a FROM item: the table as ``t``, its rows under ``condition`` (on primary keys) in locking order."""
        return f"{table} t"

    def look_up(self, table: str, condition: str) -> str:
        """Return a join of ``table`` as ``t`` to a FROM item that is read first; each row is found by primary key."""
        return f"{self.driving_join} {table} t ON {condition}"

    def union(self, selects: Sequence[str]) -> str:
        """Return a statement for the rows of all these SELECTs, of which each may have an order and a limit."""
        return selects[0] if len(selects) == 1 else " UNION ALL ".join(map(self.in_union.format, selects))

    def size(self, column: str) -> str:
        """Return the number of bytes of a column with JSON."""
        return f"LENGTH({column})"

    def json(self, expression: str) -> str:
        """Return ``expression`` (JSON text) as a value for a JSON column."""
        return expression

    def rows(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> SentRows:
        """Return the given rows (at least one) as a table that is sent in one or a few parameters."""
        return self.by_column(columns, list(zip(*rows, strict=True)))

    def by_column(self, columns: Sequence[Column], of_columns: Sequence[Sequence[Any]]) -> SentRows:
        """Like :meth:`rows`, from the values of each column.

        Moments are given as datetimes. A simple value that is the same in all rows is written into the statement, as
        for most columns of most batches.
        """
        values = dict(zip(columns, of_columns, strict=True))
        literals = self._literals(values)
        if all(literals.values()):
            literals[columns[0]] = ""
        sent = {column: values[column] for column, literal in literals.items() if not literal}
        since = {column: _first_of(values) for column, values in sent.items() if column.type == "moment"}
        sent |= {column: self.sent_moments(sent[column], first) for column, first in since.items()}
        source, parameters = self.table(list(sent), list(sent.values()))
        expressions = {
            column.name: literal or self.received(column, since.get(column, clock.EPOCH))
            for column, literal in literals.items()
        }
        return SentRows(source, parameters, expressions)

    def _literals(self, columns: Mapping[Column, Sequence[Any]]) -> dict[Column, str]:
        """Return the literal for each column whose values are all the same; "" if they differ or are better sent."""
        literals: dict[Column, str] = {}
        for column, values in columns.items():
            first = values[0]
            if values.count(first) < len(values) or (isinstance(first, str) and not _WORD.fullmatch(first)):
                literals[column] = ""
            elif isinstance(first, datetime):
                literals[column] = self.moment_literal(first)
            elif isinstance(first, str):
                literals[column] = f"'{first}'"
            else:
                literals[column] = "NULL" if first is None else str(first).upper()
        return literals

    def sent_moments(self, moments: Sequence[datetime | None], since: datetime) -> Sequence[Any]:
        """Return moments in the form in which they are sent.

        These are microseconds ``since`` one of them: formatting a date costs more than the rest of its row, and small
        integers cost less than large ones, here and on the server.
        """
        return [
            None
            if moment is None
            else (passed := moment - since).days * 86_400_000_000 + passed.seconds * 1_000_000 + passed.microseconds
            for moment in moments
        ]

    def received(self, column: Column, since: datetime) -> str:
        """Return the expression for a column that was sent; moments were sent as microseconds ``since`` that one."""
        return f"v.{column.name}"

    def table(self, columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
        """Return a FROM item named ``v`` with these columns; ``values`` has a sequence of values for each column."""
        raise NotImplementedError

    @staticmethod
    def new(column: str) -> str:
        """Return the expression, in an upsert, for the value that the INSERT would have written."""
        return f"excluded.{column}"

    def moment_literal(self, moment: datetime) -> str:
        """Return the moment as a literal for the statement, in the form in which Django stores it."""
        return f"TIMESTAMP'{moment.astimezone(UTC).replace(tzinfo=None)}'"

    def bulk_insert(self, if_exists: IfExists, assignments: str) -> tuple[str, str]:
        """Return the beginning and end of an INSERT of many rows that replaces, keeps or refuses existing rows."""
        if if_exists is IfExists.REPLACE:
            return "INSERT", self.on_conflict(assignments)
        return "INSERT", "" if if_exists is IfExists.RAISE else self.if_absent("biz_code, biz_num")

    def if_absent(self, identity: str) -> str:
        """Return the end of an INSERT that leaves an existing row as it is.

        Empty if there is none: then it raises an IntegrityError, after which the transaction can still be used.
        """
        return f" ON CONFLICT ({identity}) DO NOTHING"

    def on_conflict(self, assignments: str, identity: str = "biz_code, biz_num") -> str:
        """Return the end of an INSERT that updates an existing row of the same ``identity`` (columns) instead."""
        return f" ON CONFLICT ({identity}) DO UPDATE SET {assignments}"

    def returned_moment(self, column: str) -> str:
        """Return the expression by which rows return a moment for :meth:`to_datetime`; its values sort like moments."""
        return column

    def to_datetime(self, value: Any) -> datetime:
        """Return a moment that a driver returned as an aware datetime in UTC."""
        moment: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
        if moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """Return the dialect of this connection's server; it lives as long as the connection's object.

    Raises:
        NotImplementedError: the database vendor is not supported.
    """
    kept: Dialect | None = getattr(connection, _KEPT_AS, None)
    if kept is not None:
        return kept
    path = PATHS.get(connection.vendor)
    if path is None:
        raise NotImplementedError(f"database vendor {connection.vendor!r} is not supported")
    dialect: Dialect = import_string(path)(connection)
    setattr(connection, _KEPT_AS, dialect)
    return dialect


def is_supported(connection: BaseDatabaseWrapper) -> bool:
    """Return whether tasks can be kept in this database."""
    return connection.vendor in PATHS


@cache
def known_errors() -> Errors:
    """Return the errors of all databases together: an error does not tell which one it is from."""
    each: list[Errors] = [import_string(path).errors for path in PATHS.values()]
    passing, timeouts, not_ready, refusals, texts = zip(*each, strict=True)
    codes = [frozenset[int | str]().union(*found) for found in (passing, timeouts, not_ready, refusals)]
    return Errors(codes[0], codes[1], codes[2], codes[3], tuple(chain(*texts)))


def _first_of(moments: Sequence[datetime | None]) -> datetime:
    return next((moment for moment in moments if moment is not None), clock.EPOCH)

"""What every database can do, and how most of them say it."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.states import IfExists

ColumnType = Literal["int", "text", "json", "moment", "bool"]
SQL = tuple[str, list[Any]]
"""A fragment and its parameters."""


class Column(NamedTuple):
    """A column of rows that the client sends along with a statement."""

    name: str
    type: ColumnType


class Sent(NamedTuple):
    """Rows that the client sends along: a FROM item named ``v``, its parameters, an expression for each column."""

    source: str
    parameters: list[Any]
    column: dict[str, str]


_WORD = re.compile(r"[A-Za-z0-9_-]{0,100}")


class Dialect:
    """Fragments of SQL for one connection."""

    for_update = " FOR UPDATE"
    keeps_escaped_json = True
    """Whether JSON text in ASCII is the same value to a database that cannot hold all characters."""
    driving_join = "JOIN"
    """A join that reads its left side first."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    @property
    def now(self) -> str:
        """The present moment by the database's clock."""
        return clock.sql_now(self.connection)

    def begin_writing(self, cursor: CursorWrapper, table: str) -> None:
        """Become the writer before the first read of a transaction, where that matters."""

    def wait_at_most(self, cursor: CursorWrapper, seconds: int) -> None:
        """Let the statements of this transaction (MariaDB, MySQL: connection) wait so long for a lock, where rows have
        locks.
        """

    def same(self, one: str, other: str) -> str:
        """Whether two expressions have one value, or are both NULL."""
        return f"{one} IS {other}"

    def waits_at_most(self, cursor: CursorWrapper, seconds: int) -> None:
        """As :meth:`wait_at_most`, where that holds for the whole connection; elsewhere nothing."""

    @property
    def skip_locked(self) -> str:
        """What a locking read ends with that leaves out rows which others have locked."""
        skips = self.connection.features.has_select_for_update_skip_locked
        return f"{self.for_update} SKIP LOCKED" if skips else self.for_update

    def has_lost_transaction(self, error: DatabaseError) -> bool:
        """Whether the server, beside reporting this error, has rolled the whole transaction back and ended it."""
        return False

    def later(self, by: timedelta) -> str:
        """The moment ``by`` after now, as a literal expression."""
        raise NotImplementedError

    def moment(self, when: datetime | timedelta | None) -> SQL:
        """A parameterised expression for a moment given as such, as an offset from now, or None for now."""
        if when is None:
            return self.now, []
        if isinstance(when, timedelta):
            return self.later(when), []
        return "%s", [self.stored(when)]

    def stored(self, moment: datetime) -> Any:
        """The moment as a parameter, in the form in which Django stores it."""
        return self.connection.ops.adapt_datetimefield_value(moment)

    def greatest(self, one: str, other: str) -> str:
        """The later of two moments, neither of them NULL."""
        return f"GREATEST({one}, {other})"

    def by_key(self, table: str) -> str:
        """A table of which rows are found by primary key."""
        return table

    def update(self, table: str) -> str:
        """The beginning of an UPDATE that finds its rows by primary key."""
        return f"UPDATE {self.by_key(table)}"

    def delete(self, table: str) -> str:
        """The beginning of a DELETE that finds its rows by primary key."""
        return f"DELETE FROM {table}"

    def to_lock(self, table: str, condition: str) -> str:
        """A FROM item: the table as ``t``, its rows under ``condition`` (on primary keys) in the order to lock them."""
        return f"{table} t"

    def look_up(self, table: str, condition: str) -> str:
        """Joins ``table`` as ``t`` to a FROM item that is read first: for each of its rows one look by primary key."""
        return f"{self.driving_join} {table} t ON {condition}"

    def position(self, column: str) -> str:
        """Where the parameter's text begins in the column, exactly compared; 0 if it is not in it."""
        return f"INSTR({column}, %s)"

    def json(self, expression: str) -> str:
        """``expression`` (JSON text) as a value of a JSON column."""
        return expression

    def rows(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Sent:
        """The given rows (one at least), to be used as a table: sent in one or few parameters. Moments are datetimes.

        What is the same in all of them, and simple, is written into the statement: most columns of most batches.
        """
        values = dict(zip(columns, zip(*rows, strict=True), strict=True))
        literals = {column: self._literal(of_column) for column, of_column in values.items()}
        if all(literals.values()):
            literals[columns[0]] = ""
        sent = {column: self._to_send(column, values[column]) for column, literal in literals.items() if not literal}
        source, parameters = self.table(list(sent), list(sent.values()))
        expressions = {column.name: literal or self.received(column) for column, literal in literals.items()}
        return Sent(source, parameters, expressions)

    def _literal(self, values: Sequence[Any]) -> str:
        """What stands for a column in which all is the same; nothing if it is not, or is better sent."""
        first = values[0]
        if values.count(first) < len(values):
            return ""
        if isinstance(first, datetime):
            return self.moment_literal(first)
        if isinstance(first, str):
            return f"'{first}'" if _WORD.fullmatch(first) else ""
        return "NULL" if first is None else str(first).upper()

    def _to_send(self, column: Column, values: Sequence[Any]) -> Sequence[Any]:
        if column.type != "moment":
            return values
        return [None if moment is None else self.sent_moment(moment) for moment in values]

    def sent_moment(self, moment: datetime) -> Any:
        """A moment of a column of type "moment", as it is sent: as a number, since writing a date out costs more than
        all else of its row.
        """
        return clock.as_micros(moment)

    def received(self, column: Column) -> str:
        """The expression for a column that was sent."""
        return f"v.{column.name}"

    def table(self, columns: Sequence[Column], values: Sequence[Sequence[Any]]) -> SQL:
        """A FROM item named ``v`` with these columns; ``values`` has those of each column."""
        raise NotImplementedError

    @staticmethod
    def new(column: str) -> str:
        """In an upsert: the value that the INSERT would have written."""
        return f"excluded.{column}"

    def moment_literal(self, moment: datetime) -> str:
        """The moment, written into the statement."""
        return clock.literal(self.connection, moment)

    def bulk_insert(self, if_exists: IfExists, assignments: str) -> tuple[str, str]:
        """What an INSERT of many rows begins and ends with, so that it replaces, keeps, or refuses what exists."""
        if if_exists is IfExists.REPLACE:
            return "INSERT", self.on_conflict(assignments)
        return "INSERT", "" if if_exists is IfExists.RAISE else " ON CONFLICT (biz_code, biz_num) DO NOTHING"

    def on_conflict(self, assignments: str) -> str:
        """The tail of an INSERT that updates the row of the same identity instead."""
        return f" ON CONFLICT (biz_code, biz_num) DO UPDATE SET {assignments}"

    def to_datetime(self, value: Any) -> datetime:
        """A moment as a driver returned it, aware and in UTC."""
        moment: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

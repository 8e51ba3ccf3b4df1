"""Packets: statements that need no answer in between are sent to the server together, in one round trip.

In a transaction of one of this package's threads, BEGIN waits for the first statement, and statements that are given
to :func:`send_with_next` wait for one whose answer is needed. The server executes them in order and stops at the first
error, which is raised where the packet is sent. Row counts are compared when the answers are there, and so before the
transaction is committed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from django.db import InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

BETWEEN: Final = ";\n"
"""What separates the statements of a packet."""
_KEPT_AS: Final = "_ddt_packet"
"""The attribute of a connection that keeps its packet."""


class _Statement(NamedTuple):
    """A statement; if ``rows`` is given, and it changes another number of them, ``otherwise`` is raised."""

    sql: str
    parameters: Sequence[Any] | None = None
    rows: int | None = None
    otherwise: type[Exception] = InterfaceError

    def check(self, changed: int) -> None:
        if self.rows is not None and changed != self.rows:
            raise self.otherwise(f"{changed} rows instead of {self.rows}: {self.sql[:100]}")


_BEGIN: Final = _Statement("BEGIN")


class Packet:
    """The statements that wait on one connection; an execute wrapper of it.

    Attributes:
        is_wanted: whether the next transaction is to begin with its first statement.
        is_open: whether statements may wait.
    """

    def __init__(self, connection: BaseDatabaseWrapper, is_possible: Callable[[], bool]) -> None:
        self._connection = connection
        self._is_possible = is_possible
        self._waiting: list[_Statement] = []
        self.is_wanted = self.is_open = False

    def begin(self) -> None:
        """Begin a transaction; Django calls this."""
        self.is_wanted, is_wanted = False, self.is_wanted
        # Code that removes a wrapper of its own with pop() may have removed this one.
        if is_wanted and self in self._connection.execute_wrappers and self._is_possible():
            self.is_open, self._waiting = True, [_BEGIN]
        elif self._connection.vendor == "mysql":
            with self._connection.wrap_database_errors:
                self._connection.connection.begin()
        else:
            self._connection._set_autocommit(False)  # type: ignore[attr-defined]

    def add(self, statement: _Statement) -> None:
        """Let a statement wait."""
        self._waiting.append(statement)

    def send(self, cursor: CursorWrapper) -> None:
        """Send what waits, except for a BEGIN that nothing has followed; nothing waits any more afterwards."""
        self.is_open = False
        if self._waiting and self._waiting[-1] is not _BEGIN:
            last = self._waiting.pop()
            cursor.execute(last.sql, last.parameters)
            last.check(cursor.rowcount)
        self._waiting = []  # a hook of on_commit would send the BEGIN

    def drop(self) -> None:
        """Forget what waits, after an error."""
        self.is_wanted = self.is_open = False
        self._waiting = []

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if not self._waiting:
            return execute(sql, params, many, context)
        waiting, self._waiting = self._waiting, []
        try:
            if many or not isinstance(sql, str) or isinstance(params, Mapping):
                self._send_apart(waiting)
                return execute(sql, params, many, context)
            return self._send_together(waiting, execute, sql, params, context)
        except BaseException:
            # The server may not have executed BEGIN, or not all that the work takes for done.
            self._connection.needs_rollback = self._connection.in_atomic_block
            raise

    def _send_apart(self, waiting: Sequence[_Statement]) -> None:
        with self._connection.cursor() as cursor:
            for statement in waiting:
                cursor.execute(statement.sql, statement.parameters)
                statement.check(cursor.rowcount)

    def _send_together(
        self, waiting: Sequence[_Statement], execute: Callable[..., Any], sql: str, params: Any, context: dict[str, Any]
    ) -> Any:
        answer = execute(*_joined([*waiting, _Statement(sql, params)]), False, context)
        cursor, counts = context["cursor"], []
        for statement in waiting:
            counts.append(cursor.rowcount)
            if not cursor.nextset():
                raise InterfaceError(f"the server has not answered what follows {statement.sql[:100]!r}")
        for statement, count in zip(waiting, counts, strict=True):
            statement.check(count)
        return answer


def _joined(statements: Sequence[_Statement]) -> tuple[str, list[Any] | None]:
    if all(statement.parameters is None for statement in statements):
        return BETWEEN.join(statement.sql for statement in statements), None
    texts = [one.sql.replace("%", "%%") if one.parameters is None else one.sql for one in statements]
    return BETWEEN.join(texts), [value for one in statements for value in one.parameters or ()]


def use(connection: BaseDatabaseWrapper, is_possible: Callable[[], bool]) -> None:
    """Send packets from now on through this connection, in transactions for which ``is_possible()`` is true."""
    if hasattr(connection, _KEPT_AS):
        return
    packet = Packet(connection, is_possible)
    setattr(connection, _KEPT_AS, packet)
    connection._start_transaction_under_autocommit = packet.begin  # type: ignore[attr-defined]
    connection.execute_wrappers.append(packet)


@contextmanager
def begun_with_first_statement(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the transaction that begins in the block begin with its first statement; :func:`send` is to end it."""
    packet: Packet | None = getattr(connection, _KEPT_AS, None)
    if packet is None:
        yield
        return
    connection.close_if_health_check_failed()
    connection.ensure_connection()  # the receivers of connection_created may have transactions of their own
    packet.is_wanted = True
    try:
        yield
    finally:
        packet.drop()


def send_with_next(
    cursor: CursorWrapper,
    sql: str,
    parameters: Sequence[Any] | None = None,
    rows: int | None = None,
    otherwise: type[Exception] = InterfaceError,
) -> None:
    """Execute a statement whose answer is not needed: with the next one if it can wait, otherwise now.

    Raises:
        otherwise: it has changed another number of rows than ``rows``. This may be raised by the next statement.
    """
    statement = _Statement(sql, parameters, rows, otherwise)
    packet: Packet | None = getattr(cursor.db, _KEPT_AS, None)
    if packet is not None and packet.is_open:
        packet.add(statement)
        return
    cursor.execute(sql, parameters)
    statement.check(cursor.rowcount)


def send(cursor: CursorWrapper) -> None:
    """Send what waits, at the end of a transaction, before it is committed."""
    packet: Packet | None = getattr(cursor.db, _KEPT_AS, None)
    if packet is not None:
        packet.send(cursor)

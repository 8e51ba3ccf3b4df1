"""Transactions that are tried again as a whole after errors that may pass, such as deadlocks."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, TypeVar

from django.db import DatabaseError, DataError, Error, IntegrityError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.dialects.base import known_errors
from django_delayed_tasks.store.sql.tables import TASK

T = TypeVar("T")
MayTryAgain = Callable[[BaseException], bool] | None
"""A function that returns whether trying again may help after an error; None stands for :func:`is_transient`."""

TRIES = 12
"""Tries of a transaction that a deadlock or the like ends: with the pauses between them, about a second."""


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a write would be part of a transaction that the caller ends.

    That is so inside ``atomic()`` and with autocommit off.
    """
    if connection.connection is None:
        return connection.in_atomic_block or not connection.settings_dict["AUTOCOMMIT"]
    return connection.in_atomic_block or not connection.autocommit


def is_in_test_case(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the innermost transaction is the one that a TestCase opens around each test."""
    blocks = connection.atomic_blocks
    return connection.in_atomic_block and bool(blocks) and getattr(blocks[-1], "_from_testcase", False)


def atomically(alias: str, work: Callable[[CursorWrapper], T], may_try_again: MayTryAgain = None) -> T:
    """Call ``work(cursor)`` in one transaction: the caller's if there is one, where nothing can be tried again.

    Otherwise the work is tried again, with growing pauses, after deadlocks, lock timeouts, serialization failures, a
    busy SQLite, or a refusal by a cluster; or after the errors that ``may_try_again`` allows. On a cluster it
    sees everything that was committed before, on any node.

    Raises:
        Error: the error was of another kind, or the tries are used up. If the connection no longer works, it is closed:
            the next call opens another one.
    """
    connection = connections[alias]
    dialect = dialect_of(connection)
    if in_transaction(connection):
        with connection.cursor() as cursor:
            if not connection.in_atomic_block:
                # With autocommit off, Python's sqlite3 begins no transaction before a SELECT or a SAVEPOINT, and
                # releasing the outermost savepoint commits.
                dialect.begin_writing(cursor, TASK)
            return work(cursor)

    def transact() -> T:
        with dialect.turn(), dialect.caught_up(), transaction.atomic(using=alias), connection.cursor() as cursor:
            return work(cursor)

    return _insist(connection, transact, may_try_again)


def in_one_statement(alias: str, work: Callable[[CursorWrapper], T], may_try_again: MayTryAgain = None) -> T:
    """Call ``work(cursor)`` as :func:`atomically` does, for a single statement, which is a transaction by itself.

    A node of a cluster may be a moment behind: for work for which a fence catches a reading that is too old.
    """
    connection = connections[alias]

    def execute() -> T:
        with connection.cursor() as cursor:
            return work(cursor)

    return execute() if in_transaction(connection) else _insist(connection, execute, may_try_again)


def _insist(connection: BaseDatabaseWrapper, execute: Callable[[], T], may_try_again: MayTryAgain) -> T:
    """Call ``execute()``, again and again while that may help; then give up the connection if it works no longer."""
    for attempt in range(TRIES):
        used = connection.connection
        try:
            return execute()
        except Error as error:
            if attempt + 1 == TRIES or not (may_try_again or is_transient)(error):
                if not kept_connections.is_refusal(error):
                    kept_connections.note_if_lost(connection, used=used)
                raise
            before_next_try(connection, error, attempt)
    raise AssertionError("unreachable")


def read_rows(alias: str, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a SELECT, which is executed as :func:`in_one_statement` does."""

    def read(cursor: CursorWrapper) -> list[tuple[Any, ...]]:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

    return in_one_statement(alias, read)


def delete_rows(alias: str, table: str, ids: Sequence[int]) -> int:
    """Delete the rows of these ids in one transaction; return how many there were."""

    def delete(cursor: CursorWrapper) -> int:
        cursor.execute(f"DELETE FROM {table} WHERE id IN ({', '.join(map(str, ids))})")
        return int(cursor.rowcount)

    return atomically(alias, delete) if ids else 0


def in_one_write(alias: str, work: Callable[[CursorWrapper], T], may_try_again: MayTryAgain = None) -> T:
    """Call ``work(cursor)`` as :func:`in_one_statement` does, for a statement that writes.

    On SQLite it takes its turn: next to threads that take turns, one that does not would find no gap to write in.
    """
    connection = connections[alias]
    turn = nullcontext if in_transaction(connection) else dialect_of(connection).turn

    def write(cursor: CursorWrapper) -> T:
        with turn():
            return work(cursor)

    return in_one_statement(alias, write, may_try_again)


def briefly(alias: str, work: Callable[[CursorWrapper], T]) -> T:
    """Call ``work(cursor)`` as :func:`atomically` does, with no statement waiting more than a second for a lock.

    For connections of this package's own threads: on MariaDB and MySQL the limit stays set for the connection.

    Raises:
        DatabaseError: among others, an error for which :func:`is_lock_timeout` is true.
    """

    def wait_briefly(cursor: CursorWrapper) -> T:
        dialect_of(connections[alias]).wait_at_most(cursor, 1)
        return work(cursor)

    return atomically(alias, wait_briefly, is_transient_at_once)


def decisively(alias: str, work: Callable[[CursorWrapper], T], may_try_again: MayTryAgain = None) -> T:
    """Call ``work(cursor)`` as :func:`in_one_statement` does, on a node that has caught up with its cluster.

    For statements that decide whether a claim or a lease is held.
    """
    return in_one_statement(alias, _caught_up(alias, work), may_try_again)


def decisive_write(alias: str, work: Callable[[CursorWrapper], T], may_try_again: MayTryAgain = None) -> T:
    """Call ``work(cursor)`` as :func:`decisively` does, for a statement that writes."""
    return in_one_write(alias, _caught_up(alias, work), may_try_again)


def catch_up(alias: str) -> None:
    """Wait until this node shows what its cluster has committed; that is not tried again."""
    in_one_statement(alias, lambda _: dialect_of(connections[alias]).catch_up(), lambda _: False)


def _caught_up(alias: str, work: Callable[[CursorWrapper], T]) -> Callable[[CursorWrapper], T]:
    def decide(cursor: CursorWrapper) -> T:
        with dialect_of(connections[alias]).caught_up():
            return work(cursor)

    return decide


def before_next_try(connection: BaseDatabaseWrapper, error: Error, attempt: int) -> None:
    """Pause after an error that may pass; give up the connection to a node that has lost its cluster."""
    if _code(error) in known_errors().not_ready:
        # A new connection may lead to another node.
        connection.close()
    time.sleep(pause(attempt))


def discard_after(error: BaseException, alias: str) -> None:
    """Close this thread's connection after an ``error`` for which the session may be the cause.

    If the error may pass, it is not: this session is as good as another one, which may not be had.
    """
    if not is_transient(error):
        kept_connections.discard(connections[alias])


def pause(attempt: int) -> float:
    """Return the seconds before the next try: doubling from 2 ms to 250 ms, of which up to half is cut at random."""
    span: float = min(0.25, 0.002 * 2**attempt)
    return span * random.uniform(0.5, 1.0)


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed if it is tried again at once."""
    if not isinstance(error, DatabaseError):
        return False
    errors, code = known_errors(), _code(error)
    has_number = code in errors.passing or code in errors.lock_timeouts or code in errors.not_ready
    return has_number or any(text in str(error) for text in errors.texts)


def is_transient_at_once(error: BaseException) -> bool:
    """Return whether the error is transient (see :func:`is_transient`) and not a lock timeout."""
    return is_transient(error) and not is_lock_timeout(error)


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether a row stayed locked for longer than this connection waits."""
    return isinstance(error, DatabaseError) and _code(error) in known_errors().lock_timeouts


def _code(error: BaseException) -> Any:
    cause = error.__cause__ or error
    return getattr(cause, "sqlstate", None) or (error.args[0] if error.args else None)


def is_unwritable(error: BaseException) -> bool:
    """Return whether the database refuses the data that was to be written, and would refuse it again.

    So does the driver if the connection's character set lacks some of the characters. All other errors of a database
    (server gone away, read-only, disk full, table being migrated) may pass.
    """
    code = error.args[0] if error.args else None
    return isinstance(error, DataError | IntegrityError | UnicodeError) or code in known_errors().refusals


def oldest_transaction(alias: str) -> tuple[timedelta, int] | None:
    """Return how long the oldest transaction has been open, and the id of its session on the server.

    None: there is none, this database does not tell, or its user may not ask.
    """
    query = dialect_of(connections[alias]).oldest_transaction
    if not query:
        return None
    try:
        found = read_rows(alias, query)
    except DatabaseError:  # the privilege PROCESS is missing
        return None
    return (timedelta(seconds=float(found[0][0])), int(found[0][1])) if found and found[0][0] is not None else None

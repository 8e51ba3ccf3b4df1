"""Tasks that wait and runs that have ended, by the million: made on the server, in pieces."""

from collections.abc import Callable
from datetime import timedelta

from django.db import connection

DIGITS = 4
PIECE = 10**DIGITS
"""Rows of one statement."""
CODES = 100


def add_waiting(start: int, stop: int, levels: int) -> None:
    """Add tasks number ``start`` to ``stop`` (multiples of PIECE) for later, of many codes and ``levels`` levels.

    A level is one of up to ten queues and a priority; the first is ("default", 0).
    """
    from django_delayed_tasks.store.schedules.add import FRESH

    _add_tasks("w", start, stop, levels, timedelta(days=1), FRESH)


def add_overdue(start: int, stop: int, levels: int) -> None:
    """Add tasks that have been due for up to an hour, otherwise as :func:`add_waiting` does."""
    from django_delayed_tasks.store.schedules.add import FRESH

    _add_tasks("o", start, stop, levels, timedelta(hours=-1), FRESH)


def add_failed(start: int, stop: int, levels: int) -> None:
    """Add tasks that have failed, each with an error of its own, otherwise as :func:`add_waiting` does."""
    from django_delayed_tasks.states import TaskStatus

    _add_tasks("f", start, stop, levels, timedelta(hours=-1), f"{TaskStatus.FAILED:d}, 3, 3, 0, 0, {_error()}, ''")


def _add_tasks(prefix: str, start: int, stop: int, levels: int, due: timedelta, state: str) -> None:
    """Add tasks whose numbers begin with ``prefix``; ``state`` has the values of the last columns, from the status."""
    from django_delayed_tasks.store.schedules.add import COLUMNS
    from django_delayed_tasks.store.sql.dialects import dialect_of
    from django_delayed_tasks.store.sql.tables import TASK

    dialect = dialect_of(connection)
    level, queue = f"(n.i % {levels})", f"(n.i % {levels} % 10)"

    def insert(first: int, numbers: str) -> str:
        when = dialect.later(due + timedelta(seconds=first // PIECE))
        return (
            f"INSERT INTO {TASK} ({COLUMNS}) SELECT {joined('c', f'n.i % {CODES}')}, {joined(prefix, 'n.i')}, '', NULL,"
            f" CASE {queue} WHEN 0 THEN 'default' ELSE {joined('q', queue)} END, ({level} - {queue}) / 10,"
            f" NULL, NULL, NULL, NULL, {when}, {when}, {dialect.now}, {dialect.now}, {state} FROM {numbers} n"
        )

    in_pieces(start, stop, insert)
    analyze(TASK)


def add_limited(start: int, stop: int, code: str, keys: int = 0, are_blocked: bool = False) -> None:
    """Add due tasks number ``start`` to ``stop`` (multiples of PIECE) of a limited code, with up to 10,000 ``keys``.

    The data of a task are its key. ``are_blocked``: they wait in lanes of their keys, though not those of their names.
    """
    from django_delayed_tasks.store.schedules.add import COLUMNS, FRESH
    from django_delayed_tasks.store.sql.dialects import dialect_of
    from django_delayed_tasks.store.sql.lanes import open_lane
    from django_delayed_tasks.store.sql.tables import TASK

    dialect = dialect_of(connection)
    key = f"(n.i % {keys or 1})"
    zeros = "~" + "0" * 27  # with the number of the key, as many digits as a lane of a key has
    lane = joined(zeros, f"{key} + 10000", open_lane(code)) if are_blocked else f"'{open_lane(code)}'"
    data = dialect.json("(" + joined('"', key, '"') + ")" if keys else "NULL")

    def insert(first: int, numbers: str) -> str:
        moment = dialect.later(timedelta(days=-1, seconds=first // PIECE))
        return (
            f"INSERT INTO {TASK} ({COLUMNS}) SELECT '{code}', {joined('l', 'n.i')}, {lane}, {data},"
            f" 'default', 0, NULL, NULL, NULL, NULL, {moment}, {moment}, {dialect.now}, {dialect.now}, {FRESH}"
            f" FROM {numbers} n"
        )

    in_pieces(start, stop, insert)
    analyze(TASK)


def add_runs(start: int, stop: int, ended: timedelta = timedelta(days=30), are_failed: bool = False) -> None:
    """History rows number ``start`` to ``stop``, of runs that ended so long ago."""
    from django_delayed_tasks.states import RunOutcome
    from django_delayed_tasks.store.records.history import COLUMNS
    from django_delayed_tasks.store.sql.dialects import dialect_of
    from django_delayed_tasks.store.sql.tables import RUN

    moment = dialect_of(connection).later(-ended)
    outcome, error = (RunOutcome.FAILED, _error()) if are_failed else (RunOutcome.DONE, "''")

    def insert(first: int, numbers: str) -> str:
        return (
            f"INSERT INTO {RUN} ({COLUMNS}) SELECT n.i, 1, 'nothing', {joined('r', 'n.i')}, 1, 1, {moment},"
            f" {outcome:d}, {moment}, {moment}, NULL, {error}, NULL, NULL FROM {numbers} n"
        )

    in_pieces(start, stop, insert)
    analyze(RUN)


def _error() -> str:
    """Return an expression for an error that no other row has."""
    return joined("ValueError: order ", "n.i", " cannot be paid")


def in_pieces(start: int, stop: int, insert: Callable[[int, str], str]) -> None:
    """Execute ``insert(first, numbers)``, ``numbers`` being a table of one column, i, with a PIECE of numbers."""
    with connection.cursor() as cursor:
        for first in range(start, stop, PIECE):
            cursor.execute(insert(first, numbers_from(first)))


def numbers_from(first: int) -> str:
    """A derived table of a PIECE of numbers: the product of its digits. No database's own way of counting."""
    digit = "(SELECT 0 v " + " ".join(f"UNION ALL SELECT {digit}" for digit in range(1, 10)) + ")"
    value = " + ".join(f"{10**place} * d{place}.v" for place in range(DIGITS))
    tables = ", ".join(f"{digit} d{place}" for place in range(DIGITS))
    return f"(SELECT {first} + {value} AS i FROM {tables})"


def joined(prefix: str, number: str, suffix: str = "") -> str:
    """A text, a number and a text."""
    if connection.vendor == "mysql":
        return f"CONCAT('{prefix}', {number}, '{suffix}')"
    return f"'{prefix}' || ({number}) || '{suffix}'"


def empty(*tables: str) -> None:
    """Delete all rows, and their traces."""
    words = {"mysql": "TRUNCATE TABLE", "postgresql": "TRUNCATE"}.get(connection.vendor, "DELETE FROM")
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"{words} {table}")


def finish_writing() -> None:
    """Have the server do now the work that the new rows leave to it: it would otherwise do so while we measure."""
    statements = {"postgresql": ("VACUUM", "CHECKPOINT"), "sqlite": ("PRAGMA wal_checkpoint(TRUNCATE)",)}
    with connection.cursor() as cursor:
        for statement in statements.get(connection.vendor, ()):
            cursor.execute(statement)


def analyze(table: str) -> None:
    """Statistics as they are after a while of use."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {'TABLE ' * (connection.vendor == 'mysql')}{table}")
        if connection.vendor == "mysql":
            cursor.fetchall()

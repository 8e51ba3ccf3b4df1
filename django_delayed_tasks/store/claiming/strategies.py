"""The claiming strategies: skip-locked on PostgreSQL, sole writer on SQLite, compare-and-set elsewhere.

Each was chosen by measurement (docs/decisions/0003 and 0014). PostgreSQL locks due rows and skips those that other
transactions have locked. On SQLite only one connection writes at a time, so no other can take the rows that were found.
Elsewhere rows are compared and set: see ``compare_and_set``.
"""

from collections.abc import Callable
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimed_in_order, returned
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates, taking
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_write

Strategy = Callable[[str, ClaimRequest], list[ClaimedTask]]
"""A function that claims due tasks and returns them; an empty list if none is due. May raise :class:`Outpaced`."""


def strategy_for(alias: str, name: str) -> Strategy:
    """Return the strategy of this name; "auto" is the one of the database.

    Raises:
        ValueError: the database does not claim in this way.
    """
    dialect = dialect_of(connections[alias])
    if name == "skip_locked" and dialect.claiming != "skip_locked":
        raise ValueError(
            f"only PostgreSQL claims with SKIP LOCKED, and database {alias!r} is {connections[alias].display_name};"
            " remove CLAIM, or set it to 'auto'"
        )
    return _STRATEGIES[dialect.claiming if name == "auto" else name]


def skip_locked(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Claim up to ``request.limit`` due tasks of one level: they are now RUNNING in this executor's name."""
    dialect = dialect_of(connections[alias])
    due, parameters = _due(dialect, request, " FOR UPDATE SKIP LOCKED")
    # PostgreSQL evaluates the array once. It may run the subquery of a plain IN several times, and then claim more rows
    # than the limit.
    return in_one_write(alias, _claim(dialect, request, f"= ANY (ARRAY({due}))", parameters))


def sole_writer(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Claim up to ``request.limit`` due tasks of one level: they are now RUNNING in this executor's name."""
    dialect = dialect_of(connections[alias])
    due, parameters = _due(dialect, request)
    # In a transaction: if one row cannot be read, the others must not stay claimed with no executor to run them.
    return atomically(alias, _claim(dialect, request, f"IN ({due})", parameters))


def _due(dialect: Dialect, request: ClaimRequest, locking: str = "") -> tuple[str, list[Any]]:
    """Return the SELECT for the ids of the rows to claim, and its parameters."""
    if not request.only:
        due, parameters = candidates(dialect, request, columns=("id",))
        return due + locking, parameters
    due, parameters = candidates(dialect, request, columns=("id", "biz_code"))
    # Of the due rows, not of the table: there, a database may look for the code in the index on identities, and read
    # every row of it.
    return f"SELECT id FROM ({due}{locking}) due WHERE biz_code = %s", [*parameters, request.only]


def _claim(
    dialect: Dialect, request: ClaimRequest, are_due: str, parameters: list[Any]
) -> Callable[[CursorWrapper], list[ClaimedTask]]:
    """Return a function that claims rows and returns their tasks; ``are_due`` is the condition on the id, as SQL."""
    sql = f"UPDATE {TASK} SET {taking(dialect, request.executor)} WHERE id {are_due} RETURNING {returned(dialect)}"

    def write(cursor: CursorWrapper) -> list[ClaimedTask]:
        cursor.execute(sql, parameters)
        return claimed_in_order(cursor.fetchall(), dialect, request.executor)

    return write


_STRATEGIES: dict[str, Strategy] = {
    "compare_and_set": compare_and_set.claim,
    "skip_locked": skip_locked,
    "sole_writer": sole_writer,
}

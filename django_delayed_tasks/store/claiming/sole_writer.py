"""Claiming where only one connection writes at a time, as on SQLite: no other can take the rows that were found."""

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS, ClaimedTask, claimed_in_order
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates, taking
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import TASK
from django_delayed_tasks.store.sql.transactions import atomically


def claim(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Claim up to ``request.limit`` due tasks of one level: they are now RUNNING in this executor's name."""
    dialect = dialect_of(connections[alias])
    due, parameters = candidates(dialect, request, columns=("id",))
    update = f"UPDATE {TASK} SET {taking(dialect, request.executor)} WHERE id IN ({due})"
    if request.only:
        update += " AND biz_code = %s"
        parameters = [*parameters, request.only]

    def write(cursor: CursorWrapper) -> list[ClaimedTask]:
        cursor.execute(f"{update} RETURNING {', '.join(COLUMNS)}", parameters)
        return claimed_in_order(cursor.fetchall(), dialect, request.executor)

    # In a transaction: if one row cannot be read, the others must not stay claimed with no executor to run them.
    return atomically(alias, write)

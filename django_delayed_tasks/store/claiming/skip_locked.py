"""Claiming with SKIP LOCKED: lock due rows and skip those that other transactions have locked.

PostgreSQL needs one statement, MariaDB and MySQL a transaction of two.
"""

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS, ClaimedTask, claimed, claimed_in_order
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates, taking
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement


def claim(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Claim up to ``request.limit`` due tasks of one level: they are now RUNNING in this executor's name."""
    dialect = dialect_of(connections[alias])
    if dialect.connection.vendor == "postgresql":
        return in_one_statement(alias, lambda cursor: _with_returning(cursor, dialect, request))
    return atomically(alias, lambda cursor: _in_two_statements(cursor, dialect, request))


def _with_returning(cursor: CursorWrapper, dialect: Dialect, request: ClaimRequest) -> list[ClaimedTask]:
    select, parameters = candidates(dialect, request)
    columns = ", ".join(f"t.{column}" for column in COLUMNS)
    only = ""
    if request.only:
        only = " AND due.biz_code = %s"
        parameters = [*parameters, request.only]
    cursor.execute(
        f"WITH due AS MATERIALIZED ({select} FOR UPDATE SKIP LOCKED)"
        f" UPDATE {TASK} t SET {_qualified(taking(dialect, request.executor))} FROM due WHERE t.id = due.id{only}"
        f" RETURNING {columns}",
        parameters,
    )
    return claimed_in_order(cursor.fetchall(), dialect, request.executor)


def _qualified(assignments: str) -> str:
    return assignments.replace("= version +", "= t.version +").replace("= attempts +", "= t.attempts +")


def _in_two_statements(cursor: CursorWrapper, dialect: Dialect, request: ClaimRequest) -> list[ClaimedTask]:
    select, parameters = candidates(dialect, request)
    cursor.execute(f"{select} FOR UPDATE SKIP LOCKED", parameters)
    found = [claimed(row, dialect, request.executor, newer=1) for row in cursor.fetchall()]
    tasks = [task for task in found if request.asks_for(task.biz_code)]
    if tasks:
        ids = ", ".join(str(task.id) for task in tasks)
        cursor.execute(f"{dialect.update(TASK)} SET {taking(dialect, request.executor)} WHERE id IN ({ids})")
    return tasks

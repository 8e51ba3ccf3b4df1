"""The one transaction of an atomic run: what its handler writes and, as the last statement, the fenced settlement.

What the handler returned is committed with its effects; what it raised undoes them. The claim decides: if it is gone,
everything is rolled back.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.db.transaction import TransactionManagementError

from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.states import Then
from django_delayed_tasks.store import ClaimedTask, Settlement, galera, settle
from django_delayed_tasks.store.dialects import dialect_of

logger = logging.getLogger(__name__)

BROKEN = (
    "the transaction of this run can only be rolled back: a statement failed and the handler went on after it, "
    "or set_rollback(True) was called"
)


def settle_with(task: ClaimedTask, handle: Callable[[ClaimedTask], Settlement]) -> tuple[Settlement, Then]:
    """Call ``handle(task)`` and settle as it says, all in one transaction; the settlement, and what became of the task.

    When the answer of the COMMIT is lost this raises, and whether it was committed is unknown. Whoever settles the
    same claim afterwards finds out: that waits for the row until the server has made up its mind, and the fence of
    (id, version, RUNNING) refuses it if the COMMIT arrived.

    Raises:
        ClaimLost: the claim is gone; nothing was changed.
        BaseException: what ``handle`` raised, or the database; nothing was changed (but see above).
    """
    committed = Event()
    galera.catch_up(task.alias)  # within a transaction a node does not wait for what was committed on another
    try:
        with transaction.atomic(using=task.alias, durable=True):
            transaction.on_commit(committed.set, using=task.alias)
            with _one_transaction(task.alias):
                settlement = handle(task)
                became = _settle(task, settlement)
    except BaseException:
        if not committed.is_set():
            raise
        logger.exception("%s: an on_commit hook raised; what the run did is committed", task)
    return settlement, became


def _settle(task: ClaimedTask, settlement: Settlement) -> Then:
    if connections[task.alias].needs_rollback:
        raise TransactionManagementError(BROKEN)
    became = settle(task.alias, [settlement])
    if task.claim not in became:
        raise ClaimLost(f"{task}: the claim is gone")
    return became[task.claim]


@contextmanager
def _one_transaction(alias: str) -> Iterator[None]:
    """No statement is executed any more once the server has rolled back by itself.

    MariaDB and MySQL do so at a deadlock, SQLite when its disk is full; a handler that swallows the error would go on
    outside of the transaction, and settle without its first effects. PostgreSQL refuses by itself.
    """
    connection = connections[alias]
    dialect = dialect_of(connection)

    def watch(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        try:
            return execute(sql, params, many, context)
        except DatabaseError as error:
            if dialect.has_lost_transaction(error):
                connection.needs_rollback = True
            raise

    with connection.execute_wrapper(watch):
        yield

"""Atomic runs: one transaction holds what the handler writes and, as its last statement, the fenced settlement.

If the handler returns, its effects are committed together with the settlement; if it raises, they are rolled back. They
are also rolled back if the claim is gone. See docs/decisions/0006-atomic-runs.md.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from threading import Event
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.db.transaction import TransactionManagementError

from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, forget_what_was_read
from django_delayed_tasks.store.settling.settle import in_chunks, settle, settle_run
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.transactions import before_next_try, is_in_test_case, is_lock_timeout, is_transient
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

Settled = tuple[list[Settlement], dict[Claim, NextState]]
"""The settlements, and the next state of each task by its claim."""

BROKEN = (
    "the transaction of this run can only be rolled back: a statement failed and the handler continued after it, "
    "or set_rollback(True) was called"
)

LEFT_OPEN = (
    "the handler of this run left an atomic() block open, or ended one that was not its own: "
    "the transaction of this run can only be rolled back"
)
UNCOMMITTED = "the transaction of this run was not committed: autocommit was off when it began"

TRIES = 3
"""The number of tries of an atomic run's transaction in one attempt, if transient errors such as deadlocks end it."""


def settle_with_retries(tasks: Sequence[ClaimedTask], handle: Callable[[], list[Settlement]]) -> Settled:
    """Do :func:`settle_with`, and try again at once if a transient error such as a deadlock rolled it back."""
    first = copy(tasks[0])  # as it was claimed: the handler may change the task
    for attempt in range(TRIES - 1):
        try:
            return settle_with(tasks, first, handle)
        except DatabaseError as error:
            if is_lock_timeout(error) or not is_transient(error):
                raise
            logger.info("%s: rolled back, tried again: %s", tasks[0], error)
            before_next_try(connections[first.alias], error, attempt)
            for task in tasks:
                forget_what_was_read(task)
    return settle_with(tasks, first, handle)


def settle_with(tasks: Sequence[ClaimedTask], first: ClaimedTask, handle: Callable[[], list[Settlement]]) -> Settled:
    """Call ``handle()`` and settle as it says, all in one transaction; return the settlements and the next states.

    ``first`` is a copy of the first of the tasks. If the answer to the COMMIT is lost, this raises, and it is unknown
    whether the transaction was committed. The next settlement of the same claim resolves that: it waits for the row
    until the server has finished the transaction, and if that was committed, the fence of (id, version, RUNNING)
    refuses the settlement.

    Raises:
        ClaimLost: a claim is gone; nothing was changed.
        TransactionManagementError: the transaction can only be rolled back, or was ended by the handler itself.
        BaseException: whatever ``handle`` or the database raised; nothing was changed (but see above).
    """
    committed = Event()
    alias = first.alias
    dialect_of(connections[alias]).catch_up()  # within a transaction, a node does not wait for commits of other nodes
    block = transaction.atomic(using=alias, durable=True)
    became: dict[Claim, NextState] | None = None
    try:
        with block:
            transaction.on_commit(committed.set, using=alias)
            with _inner_blocks_ended(alias, block), _one_transaction(alias):
                settlements = handle()
                became = _settle(tasks, first, block, settlements)
    except BaseException:
        if became is None or not committed.is_set():
            raise
        logger.exception("%s: an on_commit hook raised; what the run did is committed", tasks[0])
    if not committed.is_set() and not is_in_test_case(connections[alias]):
        raise TransactionManagementError(UNCOMMITTED)
    return settlements, became


@contextmanager
def _inner_blocks_ended(alias: str, block: Any) -> Iterator[None]:
    """Roll back what a handler has left open within the ``block`` of its run, which could not be ended before that."""
    try:
        yield
    finally:
        blocks = connections[alias].atomic_blocks
        left_open = blocks[blocks.index(block) + 1 :] if block in blocks else []
        for inner in reversed(left_open):
            inner.__exit__(TransactionManagementError, TransactionManagementError(LEFT_OPEN), None)


def _settle(
    tasks: Sequence[ClaimedTask], first: ClaimedTask, block: Any, settlements: list[Settlement]
) -> dict[Claim, NextState]:
    alias = first.alias
    if connections[alias].atomic_blocks[-1:] != [block]:
        raise TransactionManagementError(LEFT_OPEN)
    if connections[alias].needs_rollback:
        raise TransactionManagementError(BROKEN)
    if len(tasks) == 1 and settle_run(alias, first, settlements[0]):
        return {first.claim: NextState.GONE}
    became: dict[Claim, NextState] = {}
    for portion in in_chunks(sorted(settlements, key=attrgetter("claim"))):  # in the order in which all lock rows
        became |= settle(alias, portion).became
    if gone := [task for task in tasks if task.claim not in became]:
        raise ClaimLost(f"{gone[0]}: the claim is gone")
    return became


@contextmanager
def _one_transaction(alias: str) -> Iterator[None]:
    """Refuse further statements once the server has rolled the transaction back by itself.

    MariaDB and MySQL do that at a deadlock, SQLite when its disk is full. A handler that swallows the error would
    continue outside of the transaction and settle without its first effects. PostgreSQL refuses by itself.
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

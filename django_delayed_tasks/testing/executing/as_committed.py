"""Lets the code that runs inside a TestCase's transaction find what it would find without one.

Otherwise it would differ from production: ``on_commit`` hooks would never be called, and an error of a statement would
make the whole transaction unusable, though the handler catches it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql.transactions import is_in_test_case
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

_OF_SAVEPOINTS = ("SAVEPOINT", "RELEASE", "ROLLBACK")


@contextmanager
def as_committed() -> Iterator[None]:
    """Within the block, statements outside of ``atomic()`` are transactions by themselves; at its end hooks are called.

    The hooks are those that were registered in the block. As after a commit, one that raises keeps the rest from being
    called, unless it is robust.
    """
    of_test = [connection for connection in connections.all(initialized_only=True) if is_in_test_case(connection)]
    starts = [len(connection.run_on_commit) for connection in of_test]
    with ExitStack() as guarded:
        for connection in of_test:
            guarded.enter_context(connection.execute_wrapper(_Statements(connection)))
            guarded.callback(_mend, connection)
        yield
    for connection, start in zip(of_test, starts, strict=True):
        _call_hooks(connection, start)


def _call_hooks(connection: Any, start: int) -> None:
    while hooks := connection.run_on_commit[start:]:
        del connection.run_on_commit[start:]
        for _, hook, is_robust in hooks:
            try:
                hook()
            except Exception:
                if not is_robust:
                    raise
                logger.exception("an on_commit hook raised")


def _mend(connection: BaseDatabaseWrapper) -> None:
    if is_in_test_case(connection):
        connection.needs_rollback = False


class _Statements:
    """Executes statements of a TestCase's transaction, so that one that fails breaks only itself."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._needs_savepoint = connection.features.atomic_transactions  # else an error aborts the transaction
        self._is_inside = False

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if self._is_inside or not is_in_test_case(self._connection):
            return execute(sql, params, many, context)
        _mend(self._connection)
        if not self._needs_savepoint or str(sql).startswith(_OF_SAVEPOINTS):
            return execute(sql, params, many, context)
        self._is_inside = True
        try:
            with transaction.atomic(using=self._connection.alias):
                return execute(sql, params, many, context)
        finally:
            self._is_inside = False

"""Failovers as sessions see them: those that were open before can write no more, those that are opened later can."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

READ_ONLY = {
    "mysql": ["SET SESSION TRANSACTION READ ONLY"],
    "postgresql": ["SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY"],
    "sqlite": ["PRAGMA query_only = 1"],
}


def make_read_only(wrapper: BaseDatabaseWrapper) -> None:
    """Let the session of this connection write nothing more; a transaction that is open may be spared."""
    with wrapper.connection.cursor() if wrapper.vendor != "sqlite" else _closing(wrapper) as cursor:
        for sql in READ_ONLY[wrapper.vendor]:
            cursor.execute(sql)


@contextmanager
def _closing(wrapper: BaseDatabaseWrapper) -> Iterator[Any]:
    cursor = wrapper.connection.cursor()
    yield cursor
    cursor.close()


class Failover:
    """Makes sessions of this process read-only, each when it is used next.

    Attributes:
        is_lasting: whether new sessions are read-only, too.
    """

    def __init__(self) -> None:
        self._demotions = 0
        self._opened: dict[BaseDatabaseWrapper, tuple[Any, int]] = {}
        self.is_lasting = False

    def demote(self) -> None:
        """Let the sessions that are open now be read-only."""
        self._demotions += 1

    def note(self, wrapper: BaseDatabaseWrapper) -> None:
        """Note a session that was opened now."""
        self._opened[wrapper] = wrapper.connection, self._demotions
        if self._before not in wrapper.execute_wrappers:
            wrapper.execute_wrappers.insert(0, self._before)

    def _before(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        session, demotions = self._opened[wrapper := context["connection"]]
        # Django sends statements through a session before it says that it has opened it.
        if self.is_lasting or (wrapper.connection is session and demotions < self._demotions):
            make_read_only(wrapper)
        return execute(sql, params, many, context)

    def forget(self) -> None:
        """Leave the connections as they were found, and close them."""
        for wrapper in list(self._opened):
            if self._before in wrapper.execute_wrappers:
                wrapper.execute_wrappers.remove(self._before)
        connection.close()


class SplitReads:
    """Lets reads find a session that is read-only, as if they were sent to a replica.

    Which are reads is what splitters take for them: no SELECT with FOR UPDATE; on MariaDB and MySQL, where they keep
    transactions whole, none in a transaction, while pgpool splits off reads there, too, before something is written.
    """

    def __init__(self) -> None:
        self._is_in_transaction = False

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        wrapper = context["connection"]
        if sql.startswith(("START", "ROLLBACK")):
            self._is_in_transaction = sql.startswith("START") and wrapper.vendor == "mysql"
        is_read = sql.startswith(("SELECT", "SHOW")) and not sql.endswith("FOR UPDATE")
        if self._is_in_transaction or not is_read:
            return execute(sql, params, many, context)
        self._write(wrapper, "ONLY")
        try:
            return execute(sql, params, many, context)
        finally:
            self._write(wrapper, "WRITE")

    def _write(self, wrapper: BaseDatabaseWrapper, mode: str) -> None:
        with wrapper.connection.cursor() as cursor:
            characteristics = "" if wrapper.vendor == "mysql" else "CHARACTERISTICS AS "
            cursor.execute(f"SET SESSION {characteristics}TRANSACTION READ {mode}")


@contextmanager
def failing_over() -> Iterator[Failover]:
    """A failover that is still to come, of the connections that are opened in the block."""
    connection.close()
    failover = Failover()

    def note(connection: BaseDatabaseWrapper, **_: Any) -> None:
        failover.note(connection)

    connection_created.connect(note)
    try:
        yield failover
    finally:
        connection_created.disconnect(note)
        failover.forget()

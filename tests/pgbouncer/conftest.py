"""PgBouncer before the test database. It gives each transaction the next one of the server's sessions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests.executor.conftest import own_handlers

if TYPE_CHECKING:
    from harness.servers.pgbouncer import PgBouncer

SESSIONS = 5

__all__ = ["own_handlers"]


def started(mode: str) -> "Iterator[PgBouncer]":
    from harness.servers.pgbouncer import PgBouncer  # needs psycopg, which not every environment has

    pooler = PgBouncer(connection.settings_dict, mode)
    pooler.find()
    try:
        pooler.prepare()
        pooler.start()
        yield pooler
    finally:
        pooler.stop()


@pytest.fixture(scope="module")
def in_transaction_mode() -> "Iterator[PgBouncer]":
    yield from started("transaction")


@pytest.fixture(scope="module")
def in_session_mode() -> "Iterator[PgBouncer]":
    yield from started("session")


def leading_through(pooler: "PgBouncer", monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All connections that Django opens meanwhile, in any thread."""
    connection.close()
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict, "PORT", str(pooler.port))
        yield
        connection.close()


@pytest.fixture
def through_transactions(
    live_db: str, in_transaction_mode: "PgBouncer", monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Connections lead through PgBouncer in transaction mode, which has several sessions of the server at hand."""
    for _ in leading_through(in_transaction_mode, monkeypatch):
        open_sessions(in_transaction_mode)
        yield


@pytest.fixture
def through_sessions(live_db: str, in_session_mode: "PgBouncer", monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections lead through PgBouncer in session mode."""
    yield from leading_through(in_session_mode, monkeypatch)


def open_sessions(pooler: "PgBouncer") -> None:
    """Open SESSIONS transactions at the same time, so that the pooler has that number of sessions."""
    import psycopg

    url = pooler.url_of(str(connection.settings_dict["NAME"]))
    clients = [psycopg.connect(url) for _ in range(SESSIONS)]
    for client in clients:
        client.execute("SELECT 1")
    for client in clients:
        client.commit()  # or PgBouncer would end the session too
        client.close()

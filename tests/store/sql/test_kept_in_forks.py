"""What a forked child does with the connections that its parent's threads keep."""

import os
import socket
from collections.abc import Iterator
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from django_delayed_tasks.store.sql import kept_connections


class Session(socket.socket):
    """A connection to a server, as a driver has it; ``server`` is the other end."""

    server: socket.socket


@pytest.fixture
def session() -> Iterator[Session]:
    ours, server = socket.socketpair()
    with server, Session(fileno=ours.detach()) as session:
        session.server = server
        yield session


def descriptors() -> set[str]:
    return {name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def forget_as_a_child(*connections: Any, thread: int) -> None:
    kept_connections._kept[thread] = [SimpleNamespace(connection=one) for one in connections]  # type: ignore[misc]
    try:
        kept_connections._forget()
    finally:
        kept_connections._of_parent.pop()


@pytest.fixture(autouse=True)
def none_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connections, "_kept", {})
    monkeypatch.setattr(kept_connections, "_of_parent", [[]])


def test_what_the_child_sends_is_discarded_and_the_parents_session_remains(session: Session) -> None:
    before = descriptors()
    with session.dup() as of_parent:
        forget_as_a_child(session, thread=get_ident() + 1)
        assert os.write(session.fileno(), b"of the child") == len(b"of the child")
        of_parent.sendall(b"of the parent")
        assert session.server.recv(100) == b"of the parent"
    assert descriptors() == before


def test_each_of_several_and_those_without_a_descriptor(session: Session) -> None:
    forget_as_a_child(None, object(), session, thread=get_ident() + 1)
    os.write(session.fileno(), b"of the child")
    session.server.setblocking(False)
    assert session.server.recv(100) == b""  # the last descriptor of the session has gone


def test_a_thread_that_forks_gets_new_ones_even_in_a_transaction(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings, "forking", connections.settings["default"])
    of_parent = connections["forking"]
    of_parent.connection, of_parent.in_atomic_block = session, True
    monkeypatch.setattr(kept_connections, "_kept", {get_ident(): [of_parent]})
    kept_connections._forget()
    of_child = connections["forking"]
    del connections["forking"]
    assert of_child is not of_parent
    assert of_child.connection is None
    assert of_child.in_atomic_block == of_child.closed_in_transaction == (of_child.vendor == "sqlite")
    os.write(session.fileno(), b"of the child")
    session.server.setblocking(False)
    assert session.server.recv(100) == b""
    of_parent.connection = None


def test_a_thread_of_the_child_with_the_id_of_one_of_the_parents_keeps_its_own(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a fork is noticed late, by a thread that is in a transaction by then."""
    monkeypatch.setitem(connections.settings, "forking", connections.settings["default"])
    of_child = connections["forking"]
    of_parent = of_child.copy()
    of_parent.connection = session
    monkeypatch.setattr(kept_connections, "_kept", {get_ident(): [of_parent]})
    kept_connections._forget()
    assert connections["forking"] is of_child
    del connections["forking"]
    of_parent.connection = None


def test_they_are_not_closed_by_being_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = SimpleNamespace(connection=None)
    monkeypatch.setattr(kept_connections, "_kept", {get_ident() + 1: [connection]})
    kept_connections._forget()
    assert kept_connections._of_parent[-1] == [connection]
    assert kept_connections._kept == {}

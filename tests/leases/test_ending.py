"""A process that ends while it holds something."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.leases import renewer as module
from django_delayed_tasks.leases.renewer import Place, Renewer
from tests.processes.conftest import Start
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.usefixtures("live_db")

HOLDS = """
import atexit, threading
def last():
    print("left", [thread.name for thread in threading.enumerate()])
    with mutex("cleaning up"):
        print("done")
atexit.register(last)  # the first one is called last
import django
django.setup()
from django_delayed_tasks.leases import mutex
held = mutex("nightly", ttl=0.5)
held.__enter__()
print("running", [thread.name for thread in threading.enumerate()])
"""


def test_no_thread_renews_while_the_interpreter_goes(start: Start) -> None:
    """One that logs then makes the interpreter abort: it holds the lock of stderr, which is flushed at the end."""
    child = start("-c", HOLDS)
    assert child.exit_code() == 0
    running, left, done, *_ = child.output.split("\n")
    assert (running, left) == ("running ['MainThread', 'ddt-leases-default']", "left ['MainThread']")
    assert done == "done"


def test_it_waits_for_a_renewal_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    renewer, begun, ended = Renewer(), Event(), Event()
    happened: list[str] = []

    def renew(alias: str, due: list[Any]) -> None:
        begun.set()
        ended.wait(0.3)
        happened.append("renewed")

    monkeypatch.setattr(module, "LAST_RENEWAL", 60.0)
    monkeypatch.setattr(renewer, "renew", renew)
    monkeypatch.setattr(Place, "ttl", timedelta(milliseconds=3))
    renewer.keep(Place(ALIAS, 1))
    assert begun.wait(60)
    renewer.end()
    ended.set()
    happened.append("ended")
    assert happened[-1] == "ended"
    assert "renewed" in happened


def test_its_thread_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    renewer, begun = Renewer(), Event()
    used: list[BaseDatabaseWrapper] = []

    def renew(alias: str, due: list[Any]) -> None:
        used.append(connections[alias])
        used[0].ensure_connection()
        begun.set()

    monkeypatch.setattr(module, "LAST_RENEWAL", 60.0)
    monkeypatch.setattr(renewer, "renew", renew)
    monkeypatch.setattr(Place, "ttl", timedelta(milliseconds=3))
    renewer.keep(Place(ALIAS, 1))
    assert begun.wait(60)
    renewer.end()
    assert used[0].connection is None

"""When the threads of an executor connect: the settler first, since handlers keep all connections they can get."""

import threading
from typing import Any

import pytest
from django.db.backends.signals import connection_created

from django_delayed_tasks.executor.options import ExecutorOptions
from tests.executor.parts import held_with
from tests.executor.settling.writing import settler_of

pytestmark = pytest.mark.per_database

TIMEOUT = 60.0  # seconds


def test_the_settler_connects_before_anything_has_run(live_db: str) -> None:
    connected = threading.Event()

    def note(**_: Any) -> None:
        if threading.current_thread().name == "settler":
            connected.set()

    connection_created.connect(note)
    settler = settler_of(held_with(ExecutorOptions()))
    try:
        settler.start()
        assert connected.wait(TIMEOUT)
    finally:
        connection_created.disconnect(note)
        assert settler.finish(TIMEOUT)

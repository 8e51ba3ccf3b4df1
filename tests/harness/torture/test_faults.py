"""Faults that are injected reach the executors, and leave the driver able to work."""

import random
from typing import Any, cast

import pytest
from django.db import connection

from harness.torture.faults import limits
from harness.torture.faults.limits import ConnectionsExhausted, have_connection

pytestmark = pytest.mark.per_database


# A connection to SQLite is never lost; Django does not ask whether it is usable.
@pytest.mark.parametrize("broken", [False] if connection.vendor == "sqlite" else [True, False])
def test_the_driver_has_a_connection_that_works(broken: bool, live_db: str) -> None:
    connection.ensure_connection()
    if broken:
        connection.connection.close()
    else:
        connection.close()
    assert have_connection(0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def test_no_connections_are_taken_before_the_driver_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "have_connection", lambda patience: False)
    fault = ConnectionsExhausted()
    assert not fault.inject(cast(Any, None), random.Random())
    assert fault._thread is None

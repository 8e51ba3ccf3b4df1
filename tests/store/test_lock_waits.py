"""How long a connection waits for locks is changed for a statement or two, and is afterwards what it was."""

import pytest
from django.db import DatabaseError, connection

from django_delayed_tasks.store.transactions import briefly_waiting
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.usefixtures("live_db")

ASK = {
    "mysql": "SELECT CONCAT(@@SESSION.innodb_lock_wait_timeout, 's')",
    "postgresql": "SHOW lock_timeout",
    "sqlite": "PRAGMA busy_timeout",
}


def waits() -> object:
    """What the connection says of itself."""
    with connection.cursor() as cursor:
        cursor.execute(ASK[connection.vendor])
        return cursor.fetchone()[0]


def test_it_waits_for_a_second_inside() -> None:
    before = waits()
    with briefly_waiting(ALIAS):
        assert waits() == (before if connection.vendor == "sqlite" else "1s")
    assert waits() == before != "1s"


@pytest.mark.parametrize("error", [DatabaseError("locked"), ValueError("no")])
def test_and_as_long_as_before_after_an_error(error: Exception) -> None:
    before = waits()
    with pytest.raises(type(error), match=str(error)), briefly_waiting(ALIAS):
        raise error
    assert waits() == before

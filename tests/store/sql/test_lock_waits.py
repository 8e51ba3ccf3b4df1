"""How long a statement waits for locks is limited for one transaction."""

import pytest
from django.db import DatabaseError, connection
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.transactions import briefly
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.usefixtures("live_db")

ASK = {
    "mysql": "SELECT CONCAT(@@SESSION.innodb_lock_wait_timeout, 's')",
    "postgresql": "SHOW lock_timeout",
    "sqlite": "PRAGMA busy_timeout",
}
STAYS = ("mysql",)
"""Databases where the limit belongs to the session, not to the transaction; only the package's own threads set it."""


def waits(cursor: CursorWrapper) -> object:
    """Return the connection's own setting."""
    cursor.execute(ASK[connection.vendor])
    return cursor.fetchone()[0]


def waits_now() -> object:
    with connection.cursor() as cursor:
        return waits(cursor)


def test_it_waits_for_a_second_inside() -> None:
    before = waits_now()
    inside = briefly(ALIAS, waits)
    assert inside == (before if connection.vendor == "sqlite" else "1s")
    assert waits_now() == (inside if connection.vendor in STAYS else before)
    connection.close()


@pytest.mark.parametrize("error", [DatabaseError("locked"), ValueError("no")])
def test_and_as_long_as_before_after_an_error(error: Exception) -> None:
    before = waits_now()

    def fail(cursor: CursorWrapper) -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        briefly(ALIAS, fail)
    assert waits_now() == ("1s" if connection.vendor in STAYS else before)
    connection.close()

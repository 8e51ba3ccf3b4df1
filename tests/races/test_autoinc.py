"""A deadlock that begins where the next id is waited for: MariaDB has another name for it."""

from django.db import DatabaseError, transaction

from django_delayed_tasks import api
from django_delayed_tasks.store.sql.transactions import is_transient
from tests.races.blocking import wait_until_blocked
from tests.store import verbs
from tests.threads import start_thread

MUCH = 300


def test_it_is_known_as_one(live_db: str) -> None:
    """InnoDB lets the transaction go that has written less: this one."""

    def write_much_and_wait() -> None:
        with transaction.atomic():
            for number in range(MUCH):
                verbs.add(f"much {number}")
            api.add_tasks([verbs.task()])  # holds the counter of ids, and waits for the row

    verbs.add()
    try:
        with transaction.atomic():
            verbs.add()
            other = start_thread(write_much_and_wait)
            wait_until_blocked(other)
            verbs.add("new")
    except DatabaseError as error:
        assert is_transient(error), error  # noqa: PT017
    other.result()
    assert verbs.row(f"much {MUCH - 1}")

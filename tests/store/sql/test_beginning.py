"""How this package's own threads begin transactions: in one statement, after which everything is as with Django's."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.models import PausedQueue
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.transactions import atomically
from tests.threads import in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def in_own_thread(work: Callable[[], None]) -> None:
    """Call ``work()`` as one of the package's threads does."""

    def run() -> None:
        with kept_connections.of_thread("default") as own:
            own.begin_in_one_statement()
            work()

    in_thread(run)


def pause(name: str) -> None:
    PausedQueue.objects.create(queue=name, paused_at=clock.host_now())


def paused() -> set[str]:
    return set(PausedQueue.objects.values_list("queue", flat=True))


def test_what_was_written_is_committed_or_rolled_back_as_a_whole() -> None:
    def write(cursor: CursorWrapper) -> None:
        pause("a")
        pause("b")

    def fail(cursor: CursorWrapper) -> None:
        write(cursor)
        raise ZeroDivisionError

    def work() -> None:
        with pytest.raises(ZeroDivisionError):
            atomically("default", fail)
        assert in_thread(paused) == set()
        with transaction.atomic():
            pause("a")
            assert in_thread(paused) == set()
            transaction.set_rollback(True)
        assert in_thread(paused) == set()
        atomically("default", write)
        assert in_thread(paused) == {"a", "b"}
        pause("c")
        assert in_thread(paused) == {"a", "b", "c"}, "outside of a transaction each statement is committed"

    in_own_thread(work)


def test_on_a_new_connection_too() -> None:
    def work() -> None:
        atomically("default", lambda cursor: pause("a"))
        connection.close()
        atomically("default", lambda cursor: pause("b"))
        assert in_thread(paused) == {"a", "b"}

    in_own_thread(work)


@pytest.mark.skipif(connection.vendor != "mysql", reason="elsewhere Django itself begins them in one statement")
def test_autocommit_stays_on() -> None:
    def sent(name: str) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS LIKE %s", [name])
            return int(cursor.fetchone()[1])

    def work() -> None:
        before = sent("Com_set_option"), sent("Com_begin")
        for name in "abc":
            atomically("default", lambda cursor, name=name: pause(name))  # type: ignore[misc]
        assert (sent("Com_set_option"), sent("Com_begin")) == (before[0], before[1] + 3)

    in_own_thread(work)

"""A statement of the library that loses a deadlock against a caller's transaction is tried again."""

from collections.abc import Callable
from threading import Event
from typing import TypeVar

from django.conf import settings
from django.db import connection, transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import NextState, RunOutcome
from tests.races.blocking import PATIENCE, wait_until_blocked
from tests.store import verbs
from tests.store.verbs import CODE, HOUR
from tests.threads import start_thread

__test__ = settings.DDT_DATABASE != "sqlite"  # which has one writer at a time

T = TypeVar("T")


def lose(work: Callable[[], T], *, first: str, middle: str, last: str) -> T:
    """Return what ``work`` returns; its first try loses a deadlock.

    ``work`` locks the three tasks in this order. It is kept waiting at the middle one until a caller who has the last
    task waits for the first, so that it is always ``work`` who closes the circle.
    """
    has_locked, may_go_on = Event(), Event()

    def call() -> None:
        with transaction.atomic():
            become_the_survivor()
            verbs.add(last, HOUR)
            has_locked.set()
            assert may_go_on.wait(PATIENCE)
            verbs.add(first, 2 * HOUR)

    caller = start_thread(call)
    assert has_locked.wait(PATIENCE)
    with transaction.atomic():
        verbs.add(middle, HOUR)
        working = start_thread(work)
        wait_until_blocked(working)
        may_go_on.set()
        wait_until_blocked(working, caller)
    caller.result()
    return working.result()


def become_the_survivor() -> None:
    """PostgreSQL ends who looks first, InnoDB who has written less.

    It writes behind all others: InnoDB may lock the row after a new one too.
    """
    api.add_tasks(verbs.task(f"z{number}") for number in range(500))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '60s'")


def test_a_settlement(live_db: str) -> None:
    api.add_tasks(verbs.task(num) for num in "abc")
    a, b, c = sorted(verbs.claim(), key=str)
    thens = lose(lambda: verbs.settle(*map(verbs.done, (a, b, c))), first="a", middle="b", last="c")
    assert thens == {
        a.claim: NextState.AGAIN if verbs.row("a") else NextState.GONE,
        b.claim: NextState.AGAIN,
        c.claim: NextState.AGAIN,
    }
    assert [verbs.outcomes(num) for num in "abc"] == [[RunOutcome.DONE]] * 3
    assert all(verbs.present(num).when == verbs.present(num).claim_at for num in "abc")


def test_a_deletion_of_many(live_db: str) -> None:
    api.add_tasks(verbs.task(f"x{i:02}") for i in range(40))
    assert lose(lambda: api.delete_tasks(CODE, "x"), first="x00", middle="x20", last="x39") == 40
    assert TaskRun.objects.count() == 40

"""A caller's open transaction does not hold up work on other tasks."""

from collections.abc import Callable

import pytest
from django.db import transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, TaskStatus
from django_delayed_tasks.store.claiming.strategies import Strategy
from django_delayed_tasks.store.settling.reap import reap
from tests.races.blocking import wait_until_blocked, wait_until_passed_by
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, HOUR
from tests.threads import start_thread

OPEN: dict[str, Callable[[], object]] = {
    "created": lambda: verbs.add("m new"),
    "replaced": lambda: verbs.add("m pending", HOUR),
    "kept": lambda: verbs.add("m pending", if_exists="keep"),
    "deferred": lambda: verbs.add("m running"),
    "rescheduled": lambda: api.reschedule_task(CODE, "m pending", HOUR),
    "cancelled": lambda: api.cancel_task(CODE, "m pending"),
    "stopping": lambda: api.cancel_task(CODE, "m running"),
    "bulk": lambda: api.add_tasks([verbs.task("m new"), verbs.task("m pending"), verbs.task("m running")]),
}
NEW = ("created", "bulk")


@pytest.mark.parametrize("call", OPEN)
def test_other_tasks_are_not_held_up(live_db: str, strategy: Strategy, call: str) -> None:
    """Rows next to the locked one are claimed, settled every way, added, cancelled, rescheduled, deleted."""
    api.add_tasks(verbs.task(num) for num in ("a gone", "b again", "c retry", "m running", "y failed", "z deferred"))
    runs = {run.biz_num: run for run in verbs.claim()}
    verbs.add("z deferred", HOUR)
    api.add_tasks(verbs.task(num) for num in ("d next", "m pending", "o next"))

    def everything_else() -> list[object]:
        return [
            sorted(run.biz_num for run in verbs.claim(strategy, limit=1)),
            len(verbs.settle(verbs.done(runs["a gone"]), verbs.again(runs["b again"], HOUR))),
            len(verbs.settle(verbs.retry(runs["c retry"]), verbs.failed(runs["y failed"]))),
            verbs.settle(verbs.done(runs["z deferred"]))[runs["z deferred"].claim],
            verbs.add("b again", HOUR).action,
            api.reschedule_task(CODE, "c retry", HOUR),
            api.cancel_task(CODE, "y failed"),
            # InnoDB checks a new identity for a duplicate under a lock on the gap next to it, so that others wait.
            [] if call in NEW else [verbs.add("l created").action, api.add_tasks([verbs.task("k"), verbs.task("n")])],
        ]

    created = [] if call in NEW else ["created", 2]
    expected = [["d next"], 2, 2, NextState.AGAIN, "replaced", True, "cancelled", created]
    with transaction.atomic():
        OPEN[call]()
        others = start_thread(everything_else)
        if live_db != "sqlite":  # which has one writer at a time
            assert others.result(timeout=20) == expected
    assert others.result() == expected


def test_bulk_adds_in_opposite_orders(live_db: str) -> None:
    """They write in the order of identities, whatever the order they are given in: one waits for the other.

    Both wait for the one in the middle first; if they came from both ends, they would then have what the other wants.
    """
    nums = [f"{i:03}" for i in range(101)]
    api.add_tasks(verbs.task(num) for num in nums)

    def add(step: int) -> int:
        with transaction.atomic():
            return api.add_tasks(verbs.task(num) for num in nums[::step])

    with transaction.atomic():
        verbs.add("050")
        threads = [start_thread(lambda: add(1)), start_thread(lambda: add(-1))]
        wait_until_blocked(*threads)
    assert [thread.result() for thread in threads] == [101, 101]
    assert set(Task.objects.exclude(biz_num="050").values_list("version", flat=True)) == {2}


def test_a_reap_of_what_is_being_changed(live_db: str) -> None:
    """It leaves the one, and takes the others."""
    api.add_tasks(verbs.task(num) for num in "abc")
    runs = {run.biz_num: run for run in verbs.claim()}
    with transaction.atomic():
        verbs.settle(verbs.done(runs["b"]))
        reaping = start_thread(lambda: reap(ALIAS, 3))
        wait_until_passed_by(reaping)
    assert reaping.result() == {runs[num].claim: NextState.RESCUED for num in "ac"}


def test_a_caller_who_waits_for_a_settlement_is_no_deadlock(live_db: str) -> None:
    """In its transaction it could not be tried again.

    The settlement has the first row and waits for the second; the caller waits for the first, which is then deleted.
    """
    api.add_tasks(verbs.task(num) for num in "ab")
    a, b = sorted(verbs.claim(), key=str)

    def call() -> str:
        with transaction.atomic():
            return verbs.add("a", HOUR).action

    with transaction.atomic():
        verbs.add("b", HOUR)
        settling = start_thread(lambda: verbs.settle(verbs.done(a), verbs.retry(b)))
        wait_until_blocked(settling)
        calling = start_thread(call)
        wait_until_blocked(settling, calling)
    ends = settling.result()
    assert ends[b.claim] is NextState.AGAIN
    # SQLite lets in any of those who wait.
    assert (calling.result(), ends[a.claim]) in {("created", NextState.GONE), ("deferred", NextState.AGAIN)}
    assert verbs.present("a").status == TaskStatus.PENDING

"""A claim meets an add, a cancel, a reschedule or another claim."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.affinity import Affinity
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, held_by
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import Strategy, skip_locked
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import Claim
from tests.races.blocking import wait_until_blocked
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, EXECUTOR, HOUR
from tests.threads import start_thread

REQUEST = ClaimRequest(EXECUTOR, "default", 0, 10)

OUTSIDE: dict[str, Callable[[], Any]] = {
    "add": lambda: verbs.add(when=HOUR, biz_ext="new").action,
    "reschedule": lambda: api.reschedule_task(CODE, "1", HOUR),
    "cancel": lambda: api.cancel_task(CODE, "1"),
    "delete": lambda: api.delete_tasks(CODE, "1"),
}
CALLS = pytest.mark.parametrize("call", OUTSIDE)
ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


def read() -> list[ClaimedTask]:
    return compare_and_set.read_candidates(Affinity(ALIAS, dialect_of(connection), REQUEST))


def take(candidates: list[ClaimedTask], executor: int = EXECUTOR) -> list[ClaimedTask]:
    return compare_and_set.take(ALIAS, dialect_of(connection), executor, candidates)


@CALLS
def test_between_reading_and_taking(db: None, call: str) -> None:
    """What was read is not run as it was read: not at the old time, not with the old data."""
    verbs.add(biz_ext="old")
    verbs.add("2")
    candidates = read()
    OUTSIDE[call]()
    assert [run.biz_num for run in take(candidates)] == ["2"]
    row = verbs.row()
    assert row is None if call in ("cancel", "delete") else row and row.status == TaskStatus.PENDING


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.PAUSED])
def test_what_was_stopped_by_other_means_meanwhile(db: None, status: TaskStatus) -> None:
    """An administrator's own statement has stopped it, without giving it a new version."""
    verbs.add()
    verbs.add("2")
    candidates = read()
    Task._base_manager.filter(biz_num="1").update(status=status)
    assert [run.biz_num for run in take(candidates)] == ["2"]
    assert verbs.present().status == status


def test_the_same_schedule_again_is_another_one(db: None) -> None:
    """The two schedules differ only in the version."""
    verbs.add(biz_ext="same")
    candidates = read()
    verbs.add(biz_ext="same")
    assert take(candidates) == []
    assert verbs.claim_one().version == 2


def test_taken_settled_and_waiting_again(db: None) -> None:
    """The row looks as it did when it was read, but is in a later version: no ABA."""
    verbs.add()
    candidates = read()
    verbs.settle(verbs.retry(verbs.claim_one(), -HOUR))
    assert take(candidates) == []


def test_ended_and_added_again(db: None) -> None:
    """The identity is the same, the row is another one, though it begins at version 0 too."""
    verbs.add()
    candidates = read()
    verbs.settle(verbs.done(verbs.claim_one()))
    verbs.add(biz_ext="new")
    assert take(candidates) == []
    assert verbs.claim_one().biz_ext == "new"


def test_taken_by_another_in_part(db: None) -> None:
    for num in "abc":
        verbs.add(num)
    candidates = read()
    take([run for run in candidates if run.biz_num == "b"], executor=8)
    assert [run.biz_num for run in take(candidates)] == ["a", "c"]
    assert {row.biz_num: row.executor for row in Task.objects.all()} == {"a": EXECUTOR, "b": 8, "c": EXECUTOR}


@CALLS
@ENDS
def test_call_before_a_claim(live_db: str, strategy: Strategy, call: str, end: str) -> None:
    """The claim skips the row or waits for it; the row's old schedule is not run if the call is committed."""
    verbs.add(biz_ext="old")
    with transaction.atomic():
        OUTSIDE[call]()
        claiming = start_thread(lambda: verbs.claim(strategy))
        if strategy is skip_locked:
            assert claiming.result() == []
        else:
            wait_until_blocked(claiming)
        transaction.set_rollback(end == "rollback")
    found = claiming.result() + verbs.claim(strategy)
    assert [run.biz_ext for run in found] == ([] if end == "commit" else ["old"])


@CALLS
@ENDS
def test_claim_before_a_call(live_db: str, strategy: Strategy, call: str, end: str) -> None:
    """The call waits and finds the task running, or waiting as before."""
    verbs.add(biz_ext="old")
    with transaction.atomic():
        verbs.claim(strategy)
        calling = start_thread(OUTSIDE[call])
        wait_until_blocked(calling)
        transaction.set_rollback(end == "rollback")
    committed = {"add": "deferred", "reschedule": True, "cancel": "stopping", "delete": 1}
    rolled_back = {"add": "replaced", "reschedule": True, "cancel": "cancelled", "delete": 1}
    assert calling.result() == (committed if end == "commit" else rolled_back)[call]
    row = verbs.row()
    assert (row and row.status) == (
        TaskStatus.RUNNING if end == "commit" else None if call in ("cancel", "delete") else TaskStatus.PENDING
    )


@ENDS
def test_two_claims(live_db: str, strategy: Strategy, end: str) -> None:
    verbs.add()
    with transaction.atomic():
        [first] = verbs.claim(strategy, executor=1)
        second = start_thread(lambda: verbs.claim(strategy, executor=2))
        if strategy is skip_locked:
            assert second.result() == []
        else:
            wait_until_blocked(second)
        transaction.set_rollback(end == "rollback")
    runs = second.result() or verbs.claim(strategy, executor=2)
    assert [run.claim for run in runs] == ([] if end == "commit" else [first.claim._replace(executor=2)])
    assert verbs.present().executor == (1 if end == "commit" else 2)


@pytest.mark.parametrize("executors", [1, 4], ids=["head of the queue", "affinity"])
def test_many_claimers(live_db: str, strategy: Strategy, executors: int) -> None:
    """Every task is claimed once, whatever they take from under each other."""
    api.add_tasks(verbs.task(str(i)) for i in range(300))
    barrier = threading.Barrier(4)

    def claim_all(executor: int) -> list[Claim]:
        barrier.wait()
        claims: list[Claim] = []
        place = executor % executors
        while Task.objects.filter(status=TaskStatus.PENDING).exists():
            runs = verbs.claim(strategy, executor, limit=10, place=place, executors=executors)
            claims += [run.claim for run in runs]
        assert held_by(ALIAS, executor) == set(claims)
        return claims

    threads = [start_thread(lambda executor=executor: claim_all(executor)) for executor in range(1, 5)]  # type: ignore[misc]
    claims = Counter(claim for thread in threads for claim in thread.result())
    assert (len(claims), set(claims.values()), {claim.version for claim in claims}) == (300, {1}, {1})

"""What is done through one node is found through another at once, on each kind of cluster."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections, transaction

from django_delayed_tasks import api
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.models import Success, Task
from django_delayed_tasks.states import AddAction, CancelResult
from django_delayed_tasks.store.sql import clusters, transactions
from django_delayed_tasks.store.sql.transactions import atomically
from tests.cluster_nodes import add_overview, behind, held_back
from tests.store import verbs

ROUNDS = 300


def add(number: int, node: str) -> None:
    api.add_task(verbs.task(str(number), verbs.HOUR), using=node)


def through_others(nodes: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(one, other) for one in nodes for other in nodes if one != other]


def test_what_was_added_is_cancelled(nodes: tuple[str, ...]) -> None:
    results: Counter[CancelResult] = Counter()
    for number in range(ROUNDS):
        one, other = through_others(nodes)[number % 6]
        add(number, one)
        results[api.cancel_task(verbs.CODE, str(number), using=other)] += 1
    assert results == {CancelResult.CANCELLED: ROUNDS}
    transactions.catch_up("default")
    assert not Task.objects.exists()


def test_what_was_added_is_rescheduled_and_then_cancelled(nodes: tuple[str, ...]) -> None:
    results: Counter[CancelResult] = Counter()
    for number in range(ROUNDS // 2):
        one, other = through_others(nodes)[number % 6]
        add(number, one)
        assert api.reschedule_task(verbs.CODE, str(number), 2 * verbs.HOUR, using=other)
        results[api.cancel_task(verbs.CODE, str(number), using=one)] += 1
    assert results == {CancelResult.CANCELLED: ROUNDS // 2}


def test_without_waiting_it_is_missing(nodes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "cluster_of", lambda connection: None)
    with behind("node2"):
        with held_back():
            add(1, "default")
        assert api.cancel_task(verbs.CODE, "1", using="node2") is CancelResult.MISSING


def test_in_a_transaction_that_is_open_nothing_waits(nodes: tuple[str, ...]) -> None:
    """Nothing could: whether it sees what was committed elsewhere is up to the session (W014)."""
    with transaction.atomic():
        add(1, "default")
        assert api.cancel_task(verbs.CODE, "1") is CancelResult.CANCELLED


def test_what_else_a_session_reads_does_not_wait(nodes: tuple[str, ...]) -> None:
    cluster = clusters.cluster_of(connections["default"])
    assert cluster
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SELECT @@{cluster.variable}, @@GLOBAL.{cluster.variable}")
        [(before, usual)] = cursor.fetchall()
        api.cancel_task(verbs.CODE, "1")
        cursor.execute(f"SELECT @@{cluster.variable}")
        assert cursor.fetchall() == ((before,),) == ((usual,),)


def add_everywhere() -> None:
    """Add a task that each node has."""
    add(1, "default")
    for node in ("node2", "node3"):
        transactions.catch_up(node)


@pytest.mark.parametrize("if_exists", ["keep", "raise", "earliest", "latest"])
def test_what_was_cancelled_is_added_again(nodes: tuple[str, ...], if_exists: Any) -> None:
    add_everywhere()
    when = {"earliest": 2 * verbs.HOUR, "latest": verbs.HOUR / 2}.get(if_exists, verbs.HOUR)
    with behind("node2") as start:
        with held_back():
            assert api.cancel_task(verbs.CODE, "1") is CancelResult.CANCELLED
        adding = start(lambda: api.add_task(verbs.task("1", when), if_exists=if_exists, using="node2"))
    assert adding.result().action is AddAction.CREATED


def test_a_queue_that_was_paused_is_resumed(nodes: tuple[str, ...]) -> None:
    with behind("node2") as start:
        with held_back():
            api.pause_queue("mail")
        resuming = start(lambda: api.resume_queue("mail", using="node2"))
    assert resuming.result()


def test_a_queue_that_was_resumed_is_paused(nodes: tuple[str, ...]) -> None:
    api.pause_queue("mail")
    transactions.catch_up("node2")
    with behind("node2") as start:
        with held_back():
            api.resume_queue("mail")
        pausing = start(lambda: api.pause_queue("mail", using="node2"))
    assert pausing.result()


def test_a_success_is_forgotten(nodes: tuple[str, ...]) -> None:
    with behind("node2") as start:
        with held_back():
            Success.objects.create(biz_code=verbs.CODE, biz_num="1", succeeded_at=datetime.now(UTC))
        forgetting = start(lambda: api.forget(verbs.CODE, "1", using="node2"))
    assert forgetting.result()


def test_a_mutex_that_was_given_back_is_taken(nodes: tuple[str, ...]) -> None:
    """Without waiting for it."""
    first = mutex("index", ttl=600)
    first.__enter__()
    transactions.catch_up("node2")

    def is_taken() -> bool:
        with mutex("index", using="node2"):
            return True

    with behind("node2") as start:
        add_overview()
        first.__exit__(None, None, None)
        taking = start(is_taken)
    assert taking.result()


def test_a_resource_that_was_added_is_leased(nodes: tuple[str, ...]) -> None:
    def is_leased() -> bool:
        with Pool("proxies", using="node2").lease():
            return True

    with behind("node2") as start:
        with held_back():
            Pool("proxies").add("a")
        leasing = start(is_leased)
    assert leasing.result()


def test_a_resource_that_was_removed_is_added(nodes: tuple[str, ...]) -> None:
    pool = Pool("proxies")
    pool.add("a")
    transactions.catch_up("node2")
    with behind("node2") as start:
        with held_back():
            pool.remove("a")
        adding = start(lambda: Pool("proxies", using="node2").add("a"))
    adding.result()
    transactions.catch_up("default")
    assert pool.resources().count() == 1


def test_hooks_after_a_commit_do_not_let_the_session_wait_for_ever(nodes: tuple[str, ...]) -> None:
    """One that decides does so within what waits."""
    cluster = clusters.cluster_of(connections["default"])
    assert cluster

    def variable() -> Any:
        with connections["default"].cursor() as cursor:
            cursor.execute(f"SELECT @@{cluster.variable}")
            return cursor.fetchone()

    usual = variable()
    atomically("default", lambda _: transaction.on_commit(lambda: api.cancel_task(verbs.CODE, "1")))
    assert variable() == usual

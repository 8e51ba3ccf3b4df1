"""What is done through one node is found through another at once, on each kind of cluster."""

from collections import Counter

import pytest
from django.db import connections, transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import CancelResult
from django_delayed_tasks.store.sql import clusters
from tests.cluster_nodes import behind, held_back
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
    clusters.catch_up("default")
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

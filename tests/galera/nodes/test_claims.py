"""Claims and leases, by way of several nodes. Without waiting for each other's commits, most of these fail."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connections

from django_delayed_tasks import api, store
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import CancelResult, RunOutcome, Then
from django_delayed_tasks.store import ClaimRequest, Settlement, compare_and_set, executors, galera, strategy_for
from tests.store import verbs
from tests.threads import start_thread

ROUNDS = 100
LEASE = timedelta(minutes=10)


def identity(name: str) -> executors.Identity:
    return executors.Identity(name, "host", 1, 1, ())


def request(executor: int, rank: int = 0, executors: int = 1, limit: int = 5) -> ClaimRequest:
    return ClaimRequest(executor, "default", 0, limit, rank=rank, executors=executors)


def test_every_node_is_recognised(nodes: tuple[str, ...]) -> None:
    assert [galera.is_galera(connections[alias]) for alias in nodes] == [True] * 3


def test_claims_are_compared_and_set(nodes: tuple[str, ...]) -> None:
    assert strategy_for("node2", "auto") is compare_and_set.claim
    with pytest.raises(ValueError, match="Galera"):
        strategy_for("node2", "skip_locked")


def test_a_claim_is_settled_on_another_node(nodes: tuple[str, ...]) -> None:
    """At once: that node need not have heard of the claim yet."""
    lost = []
    for number in range(ROUNDS):
        verbs.add(str(number))
        [run] = compare_and_set.claim("default", request(1))
        became = store.settle("node2", [Settlement(run.claim, RunOutcome.DONE, Then.GONE)])
        lost += [number] if became != {run.claim: Then.GONE} else []
    assert lost == []


def test_a_claim_is_released_on_another_node_and_can_be_made_again(nodes: tuple[str, ...]) -> None:
    verbs.add()
    for _ in range(ROUNDS):
        [run] = compare_and_set.claim("default", request(1))
        released = Settlement(run.claim, RunOutcome.LOST, Then.RELEASED, keep=False)
        assert store.settle("node3", [released]) == {run.claim: Then.RELEASED}
        galera.catch_up("default")


def test_what_is_held_is_seen_on_another_node(nodes: tuple[str, ...]) -> None:
    for number in range(ROUNDS):
        verbs.add(str(number))
        [run] = compare_and_set.claim("default", request(1))
        assert run.claim in store.held_by("node2", 1)
        assert compare_and_set.held_of("node3", 1, [run.claim]) == {run.claim}


def test_a_lease_is_renewed_on_another_node(nodes: tuple[str, ...]) -> None:
    """An executor must not think itself dead because its registration has not arrived there yet."""
    for number in range(ROUNDS):
        executor = executors.register("default", identity(str(number)), LEASE, lambda host, pid: False)
        assert executors.renew("node2", executor, LEASE)
        assert executors.retire("node3", executor)


def test_what_was_added_is_cancelled_on_another_node(nodes: tuple[str, ...]) -> None:
    for number in range(ROUNDS):
        verbs.add(str(number))
        assert api.cancel_task(verbs.CODE, str(number), using="node2") is CancelResult.CANCELLED


def test_three_nodes_claim_the_same_tasks(nodes: tuple[str, ...]) -> None:
    """All look at the head of the queue; each task is claimed once."""
    api.add_tasks(verbs.task(str(number)) for number in range(300))

    def drain(alias: str, executor: int) -> list[tuple[int, int]]:
        mine = []
        while Task.objects.using(alias).filter(status=0).exists():
            mine += [run.claim for run in compare_and_set.claim(alias, request(executor))]
        return mine

    threads = [start_thread(partial(drain, alias, number)) for number, alias in enumerate(nodes, 1)]
    claims = [claim for thread in threads for claim in thread.result()]
    assert len(claims) == len(set(claims)) == 300
    assert {version for _, version in claims} == {1}


def test_one_name_is_one_executor(nodes: tuple[str, ...]) -> None:
    """Two nodes are asked for the same name at once: one gets it, the other is told who has."""

    def register(alias: str, name: str) -> bool:
        try:
            return bool(executors.register(alias, identity(name), LEASE, lambda host, pid: False))
        except NameInUse:
            return False

    for number in range(20):
        threads = [start_thread(partial(register, alias, f"name{number}")) for alias in nodes]
        assert sorted(thread.result() for thread in threads) == [False, False, True]

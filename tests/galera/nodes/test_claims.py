"""Claims and leases, by way of several nodes. Without waiting for each other's commits, most of these fail."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from django.conf import settings
from django.db import connections

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import CancelResult, NextState, RunOutcome
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, held_by
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.limits.claiming import Place, read_places
from django_delayed_tasks.store.records.progress import Report, ReportResult, write_progress
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql import clusters, kept_connections, transactions
from django_delayed_tasks.store.sql.fences import Claim
from tests.cluster_nodes import behind, held_back
from tests.store import verbs
from tests.threads import start_thread

KINDS = {"galera": clusters.Cluster.GALERA, "groupreplication": clusters.Cluster.GROUP_REPLICATION}
T = TypeVar("T")
By = Callable[[str, Callable[[], Any]], Any]
LEASE = timedelta(minutes=10)


def identity(name: str) -> executors.Registration:
    return executors.Registration(name, "host", 1, 1, ())


def request(executor: int, place: int = 0, executors: int = 1, limit: int = 5) -> ClaimRequest:
    return ClaimRequest(executor, "default", 0, limit, place=place, executors=executors)


def test_every_node_is_recognised(nodes: tuple[str, ...]) -> None:
    assert [clusters.cluster_of(connections[alias]) for alias in nodes] == [KINDS[settings.DDT_DATABASE]] * 3


def test_claims_are_compared_and_set(nodes: tuple[str, ...]) -> None:
    assert strategy_for("node2", "auto") is compare_and_set.claim
    with pytest.raises(ValueError, match="only PostgreSQL"):
        strategy_for("node2", "skip_locked")


def claim(executor: int = 1) -> ClaimedTask:
    with held_back():
        verbs.add(str(executor))
    [run] = compare_and_set.claim("default", request(executor))
    return run


def in_own_thread(alias: str, function: Callable[[], T]) -> T:
    """Call a function as the executor's threads do, which begin transactions in a way of their own."""
    with kept_connections.of_thread(alias) as own:
        own.begin_in_one_statement()
        return function()


def by_caller(alias: str, function: Callable[[], T]) -> T:
    return function()


EACH = pytest.mark.parametrize("by", [by_caller, in_own_thread])


@EACH
def test_a_claim_is_settled_on_another_node(nodes: tuple[str, ...], by: By) -> None:
    """That node has not received the claim yet."""
    with behind("node2") as start:
        run = claim()
        settlement = Settlement(run.claim, RunOutcome.DONE, NextState.GONE)
        settling = start(lambda: by("node2", lambda: settle("node2", [settlement])))
    assert settling.result().became == {run.claim: NextState.GONE}


@EACH
def test_a_claim_is_released_on_another_node(nodes: tuple[str, ...], by: By) -> None:
    with behind("node3") as start:
        run = claim()
        settlement = Settlement(run.claim, RunOutcome.LOST, NextState.RELEASED, keep=False)
        settling = start(lambda: by("node3", lambda: settle("node3", [settlement])))
    assert settling.result().became == {run.claim: NextState.RELEASED}


def test_what_is_held_is_seen_on_another_node(nodes: tuple[str, ...]) -> None:
    with behind("node2") as start:
        run = claim()
        held = start(lambda: held_by("node2", 1))
    assert held.result() == {run.claim}
    with behind("node3") as start:
        again = claim(2)
        held = start(lambda: compare_and_set.held_of("node3", [again.claim]))
    assert held.result() == {again.claim}


def test_a_lease_is_renewed_on_another_node(nodes: tuple[str, ...]) -> None:
    """An executor must not think itself dead because its registration has not arrived there yet."""
    with behind("node2") as start:
        with held_back():
            executor = executors.register("default", identity("late"), LEASE, lambda host, pid: False)
        renewing = start(lambda: executors.renew("node2", executor, LEASE))
    assert renewing.result()
    with behind("node3") as start:
        with held_back():
            another = executors.register("default", identity("later"), LEASE, lambda host, pid: False)
        retiring = start(lambda: executors.retire("node3", another))
    assert retiring.result()


def test_what_was_added_is_cancelled_on_another_node(nodes: tuple[str, ...]) -> None:
    with behind("node2") as start:
        with held_back():
            verbs.add()
        cancelling = start(lambda: api.cancel_task(verbs.CODE, "1", using="node2"))
    assert cancelling.result() is CancelResult.CANCELLED


def test_what_waits_in_several_places_is_seen_on_another_node(nodes: tuple[str, ...]) -> None:
    places = [Place("", queue, 0) for queue in ("one", "two")]
    with behind("node2") as start:
        with held_back():
            verbs.add("1", queue="one")
            verbs.add("2", queue="two")
        reading = start(lambda: read_places("node2", 1, dict.fromkeys(places, 5)))
    found = reading.result()
    assert [[task.biz_num for task in found[place]] for place in places] == [["1"], ["2"]]


@EACH
def test_progress_is_written_on_another_node(nodes: tuple[str, ...], by: By) -> None:
    with behind("node2") as start:
        run = claim()
        writing = start(lambda: by("node2", lambda: write_progress("node2", {run.claim: Report(0.5, "half")})))
    assert writing.result() == ReportResult(set(), set())


def test_catching_up(nodes: tuple[str, ...]) -> None:
    """A session sees what another session has committed on another node."""

    def is_there() -> bool:
        return Task.objects.using("node2").filter(biz_num="1").exists()

    def is_there_then() -> bool:
        transactions.catch_up("node2")
        return is_there()

    with behind("node2") as start:
        with held_back():
            verbs.add()
        assert not is_there()
        looking = start(is_there_then)
    assert looking.result()


def test_three_nodes_claim_the_same_tasks(nodes: tuple[str, ...]) -> None:
    """All look at the head of the queue; each task is claimed once."""
    api.add_tasks(verbs.task(str(number)) for number in range(300))

    def drain(alias: str, executor: int) -> list[Claim]:
        mine = []
        while Task.objects.using(alias).filter(status=0).exists():
            with suppress(Outpaced):
                mine += [run.claim for run in compare_and_set.claim(alias, request(executor))]
        return mine

    threads = [start_thread(partial(drain, alias, number)) for number, alias in enumerate(nodes, 1)]
    claims = [claim for thread in threads for claim in thread.result()]
    assert len(claims) == len(set(claims)) == 300
    assert {claim.version for claim in claims} == {1}


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

"""CockroachDB and YugabyteDB, by their documentation: PostgreSQL without LISTEN, SKIP LOCKED and advisory locks.

These servers are not at hand. A PostgreSQL server stands in for them, whose engine refuses what they lack.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import NotSupportedError, connections
from django.test import override_settings

from django_delayed_tasks import api, leases
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import CancelResult, NextState, RunOutcome
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.notices import channels
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from harness.engines.like_postgres import base
from tests.complaints import numbers
from tests.executor.parts import drain
from tests.store import verbs

ALIAS = "distributed"
pytestmark = pytest.mark.django_db(
    transaction=True, available_apps=["django_delayed_tasks"], databases=["default", ALIAS]
)


@pytest.fixture(scope="module", autouse=True)
def _engine(django_db_setup: None) -> Iterator[None]:
    usual = connections.settings["default"]
    tests = {**usual["TEST"], "MIRROR": "default"}
    connections.settings[ALIAS] = {**usual, "ENGINE": "harness.engines.like_postgres", "TEST": tests}
    yield
    del connections.settings[ALIAS]


@pytest.fixture(params=["cockroachdb", "yugabyte"], autouse=True)
def vendor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The vendor that a backend of such a database names."""
    monkeypatch.setattr(base.DatabaseWrapper, "vendor", request.param)
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True, "DATABASE": ALIAS}), registry.preserved():
        registry.clear()
        yield request.param
        connections[ALIAS].close()
    del connections[ALIAS]


def add(num: str, when: timedelta | None = None, **fields: Any) -> None:
    api.add_task(verbs.task(num, when, **fields), using=ALIAS)


def test_the_engine_refuses_what_is_lacking() -> None:
    with connections[ALIAS].cursor() as cursor, pytest.raises(NotSupportedError, match="no SKIP LOCKED"):
        cursor.execute("SELECT 1 FROM django_delayed_tasks_task FOR UPDATE SKIP LOCKED")


def test_checks_accept_it() -> None:
    assert numbers([ALIAS]) == []
    with override_settings(DELAYED_TASKS={"DATABASE": ALIAS, "CLAIM": "skip_locked"}):
        assert numbers([ALIAS]) == ["E016"]


def test_it_claims_by_comparing_and_is_sent_no_notices() -> None:
    assert strategy_for(ALIAS, "auto") is compare_and_set.claim
    assert not channels.can_notify(ALIAS)
    assert not channels.can_listen(ALIAS)


def test_tasks_are_added_changed_claimed_and_settled() -> None:
    add("1")
    add("1", timedelta(days=300))
    assert api.reschedule_task(verbs.CODE, "1", timedelta(), using=ALIAS)
    assert api.add_tasks((verbs.task(str(number)) for number in range(2, 50)), using=ALIAS) == 48
    assert api.cancel_task(verbs.CODE, "49", using=ALIAS) is CancelResult.CANCELLED
    [level] = read_agenda(ALIAS).levels
    assert level.queue == "default"
    runs = strategy_for(ALIAS, "auto")(ALIAS, ClaimRequest(verbs.EXECUTOR, "default", 0, 100))
    assert {run.biz_num for run in runs} == {str(number) for number in range(1, 49)}
    settled = settle(ALIAS, [Settlement(run.claim, RunOutcome.DONE, NextState.GONE) for run in runs])
    assert {*settled.became.values()} == {NextState.GONE}
    assert not Task.objects.exists()
    assert Counter(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE: 48, RunOutcome.CANCELLED: 1}


def test_what_is_locked_is_left_to_others() -> None:
    """Rows that others lock may make a claim avoid them; it waits for them here, as it cannot skip them."""
    add("1")
    compare_and_set._avoiding_until[ALIAS] = float("inf")
    try:
        [run] = compare_and_set.claim(ALIAS, ClaimRequest(verbs.EXECUTOR, "default", 0, 5))
    finally:
        del compare_and_set._avoiding_until[ALIAS]
    assert run.biz_num == "1"


def test_a_mutex_and_a_pool() -> None:
    with leases.mutex("index", ttl=10, using=ALIAS):
        with pytest.raises(leases.ResourceUnavailable), leases.mutex("index", ttl=10, using=ALIAS):
            pass
    pool = leases.Pool("gateways", using=ALIAS)
    pool.add("a")
    with pool.lease(ttl=10) as lease:
        assert lease.name == "a"


def test_an_executor_drains_it() -> None:
    seen: Counter[str] = Counter()

    class Limited(TaskHandler):
        biz_code = "limited"
        max_concurrent = 2

        def handle(self, task: Any) -> None:
            seen[task.biz_num] += 1

    class Plain(TaskHandler):
        biz_code = "plain"

        def handle(self, task: Any) -> None:
            seen[task.biz_num] += 1

    register_task_handler(Limited)
    register_task_handler(Plain)
    codes = ["limited", "plain"]
    api.add_tasks((Task(biz_code=codes[n % 2], biz_num=str(n)) for n in range(100)), using=ALIAS)
    drain(database=ALIAS)
    assert seen == {str(number): 1 for number in range(100)}

"""The metrics as OpenTelemetry's SDK collects them: the same names and values as on the page for Prometheus."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from django_delayed_tasks import leases
from django_delayed_tasks.executor import meter
from django_delayed_tasks.metrics import instruments
from django_delayed_tasks.metrics.pages import Prometheus
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import ExecutorStatus
from django_delayed_tasks.store.sql.lanes import open_lane
from tests.executor.conftest import own_handlers  # noqa: F401
from tests.executor.parts import add, claim, executing, handler_of, registered
from tests.outside.telemetry import Points, collected, observed  # noqa: F401
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_handlers", "observed")]


def of_prometheus() -> Points:
    """The samples of the page for Prometheus, without its suffix of counters, which OpenTelemetry has not."""
    [activity] = meter.activities()
    form = Prometheus("default")
    page = form.with_cluster(form.of_executor(activity)).decode()
    return {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def without_executor(points: Points) -> Points:
    return {
        (name, tuple(pair for pair in labels if pair[0] != "executor")): value
        for (name, labels), value in points.items()
    }


def changes_by_itself(name: str) -> bool:
    """Whether the metric may change between two looks although nothing is done."""
    return "agenda_seconds" in name or "claim_seconds" in name or "overdue_seconds" in name


def test_all_metrics_of_prometheus_are_there_with_its_names_and_values() -> None:
    held, may_end = Event(), Event()

    def handle(task: Any) -> None:
        if task.biz_num == "held":
            held.set()
            assert may_end.wait(60)
        if task.biz_num == "bad":
            raise ValueError

    handler_of(handle, max_attempts=1, max_concurrent=5)
    leases.Pool("proxies").add("a")
    leases.Pool("proxies").add("b")
    dead = registered("dead")
    add("reaped", when=timedelta(seconds=-40))
    claim(dead, lane=open_lane("code"))
    Executor.objects.filter(pk=dead).update(alive=None, status=ExecutorStatus.CRASHED)
    add("late", code="other", queue="slow")
    Task._base_manager.filter(biz_num="late").update(claim_at=timezone.now() - timedelta(minutes=5))
    with leases.Pool("proxies").lease(), executing(queues=("default",), name="observed") as executor:
        for number in ("1", "2", "bad", "held"):
            add(number)
        assert held.wait(60)
        wait_until(lambda: len(executor.held) == 1)
        wait_until(lambda: len(executor.workers.busy()) == 1)  # a thread is idle a moment after its run is settled
        found, wanted = without_executor(collected()), of_prometheus()
        executors = {dict(labels).get("executor") for name, labels in collected() if name == "delayed_tasks_threads"}
        may_end.set()
    assert found.keys() == wanted.keys()
    assert {key: value for key, value in found.items() if not changes_by_itself(key[0])} == {
        key: value for key, value in wanted.items() if not changes_by_itself(key[0])
    }
    code = ("code", "code")
    assert found["delayed_tasks_claimed", (code,)] == 5
    assert found["delayed_tasks_reaped", (code,)] == 1
    assert found["delayed_tasks_failed", (code,)] == 1
    assert found["delayed_tasks_settled", (code, ("outcome", "done"))] == 3
    assert found["delayed_tasks_run_seconds_count", (code,)] == 4
    assert found["delayed_tasks_lateness_seconds_bucket", (code, ("le", "+Inf"))] == 4
    assert found["delayed_tasks_claim_seconds_count", ()] >= 1
    assert found["delayed_tasks_agenda_seconds_count", ()] >= 1
    assert (found["delayed_tasks_slots", (code,)], found["delayed_tasks_slots_in_use", (code,)]) == (5, 1)
    assert (found["delayed_tasks_threads", ()], found["delayed_tasks_threads_busy", ()]) == (2, 1)
    pool = ("pool", "proxies")
    assert (found["delayed_tasks_pool_size", (pool,)], found["delayed_tasks_pool_in_use", (pool,)]) == (2, 1)
    assert found["delayed_tasks_overdue_seconds", (("queue", "slow"),)] >= 299
    assert found["delayed_tasks_executors", ()] == 1
    assert executors == {"observed"}


def test_a_process_without_an_executor_reads_no_database(django_assert_num_queries: Any) -> None:
    instruments.create()
    with django_assert_num_queries(0):
        assert not [name for name, _ in collected() if name == "delayed_tasks_executors"]


def test_each_collection_looks_once(django_assert_num_queries: Any) -> None:
    instruments.create()
    activity = meter.Activity("one", 1, 0, 0, 0, [])

    def active() -> meter.Activity:
        return activity

    meter.watch(active)
    try:
        collected()
        for _ in range(2):
            with django_assert_num_queries(4):  # the agenda, the blocked levels, the executors, the pools
                assert [name for name, _ in collected() if name == "delayed_tasks_executors"]
    finally:
        meter.unwatch(active)

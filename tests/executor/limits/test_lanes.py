"""Lanes: which tasks may run, which wait, and that no other task has to."""

from collections.abc import Callable
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.executor.limits.lane import Lane
from django_delayed_tasks.executor.membership.lease import NEVER
from django_delayed_tasks.leases.pool import Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.limits.claiming import read_places
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add, handler_of
from tests.store import verbs

MakeBench = Callable[..., LanesBench]
Later = Callable[[float], None]


def test_handlers_without_limits_pass_at_once(bench: LanesBench) -> None:
    limited()
    add_some(3)
    bench.poller.poll()
    assert bench.numbers == ["0", "1", "2"]


@pytest.mark.parametrize("limits", [{"max_concurrent": 2}, {"rate": "2/h"}, {"pool": "proxies"}])
def test_no_more_than_the_limit_run(bench: LanesBench, limits: dict[str, Any]) -> None:
    for name in ("a", "b"):
        Pool("proxies").add(name)
    limited(**limits)
    add_some(5)
    bench.turn()
    bench.tick()
    assert bench.numbers == ["0", "1"]


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"pool": "proxies"}])
def test_the_next_one_when_a_run_has_ended(bench: LanesBench, limits: dict[str, Any]) -> None:
    Pool("proxies").add("only")
    limited(**limits)
    add_some(3)
    bench.turn()
    for number in ("0", "1", "2"):
        assert bench.numbers == [number]
        bench.end_run(number, verbs.done(bench.run_of(number)))
        bench.tick()
    assert not Task.objects.exists()


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"pool": "proxies"}])
def test_an_executor_that_stops_while_its_lanes_read_claims_nothing(
    bench: LanesBench, make_bench: MakeBench, limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permit may be free because a run has ended since the executor began to stop."""
    Pool("proxies").add("only")
    limited(**limits)
    add_some(1)

    def read_slowly(*given: Any) -> Any:
        found = read_places(*given)
        bench.lease.begin_stop()
        return found

    monkeypatch.setattr(lanes, "read_places", read_slowly)
    bench.turn()
    assert bench.numbers == []
    monkeypatch.undo()
    other = make_bench("other")
    other.turn()
    assert other.numbers == ["0"]


def test_in_the_whole_cluster(make_bench: MakeBench) -> None:
    limited(max_concurrent=3)
    add_some(8)
    benches = [make_bench(name, batch_size=3) for name in ("one", "two", "three")]
    for _ in range(3):
        for bench in benches:
            bench.turn()
    assert sum(len(bench.running) for bench in benches) == 3


def test_others_are_not_blocked(bench: LanesBench) -> None:
    limited(max_concurrent=1)
    limited("other")
    add_some(20)
    bench.turn()
    add_some(3, "other", "other ")
    bench.turn()
    assert bench.numbers == ["0", "other 0", "other 1", "other 2"]


def test_those_that_wait_take_no_place_of_others(make_bench: MakeBench) -> None:
    """They are not counted among what the threads have to do."""
    bench = make_bench(threads=2)
    limited(max_concurrent=1)
    limited("other")
    add_some(10)
    bench.turn()
    add_some(2, "other", "other ")
    bench.turn()
    assert bench.capacity.unfinished == len(bench.running) == 2


def test_no_more_than_there_are_threads_for(make_bench: MakeBench) -> None:
    bench = make_bench(threads=2)
    limited(max_concurrent=5)
    add_some(6)
    bench.turn()
    bench.tick()
    assert bench.numbers == ["0", "1"]
    assert Resource.objects.exclude(task_id=None).count() == 2


def test_no_more_are_claimed_than_there_are_threads_for(make_bench: MakeBench) -> None:
    """As many as wait can be started at once, if there are permits for them."""
    bench = make_bench(threads=4, batch_size=100)
    limited(max_concurrent=1)
    add_some(30)
    for _ in range(5):
        bench.turn()
    assert Task.objects.filter(status=TaskStatus.RUNNING).count() < 4 + 4 + 1


def test_the_limit_is_for_each_key(bench: LanesBench) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    for number, customer in enumerate(["x", "x", "y", None, None]):
        add(str(number), biz_ext=customer)
    bench.turn()
    assert bench.numbers == ["0", "2", "3"]


def test_a_key_with_many_does_not_keep_others_from_being_claimed(bench: LanesBench) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    add_some(30, biz_ext="many")
    bench.turn()
    add("other", biz_ext="few")
    for _ in range(5):  # each claims as many as there are threads
        bench.turn()
    assert bench.numbers == ["0", "other"]
    assert Task.objects.filter(lane__startswith="~").count() == 30 - 1


@pytest.mark.parametrize("key", [lambda self, task: 1 / 0, lambda self, task: [5]])
def test_a_key_that_cannot_be_told_fails_its_own_task(bench: LanesBench, key: Any) -> None:
    limited(max_concurrent=1, concurrency_key=key)
    limited("other")
    add("1")
    add("2", "other")
    bench.turn()
    assert bench.numbers == ["2"]
    [settlement] = bench.failed
    assert "test_lanes" in settlement.error or "concurrency_key() gave [5]" in settlement.error
    assert bench.capacity.unfinished == 1


def test_a_pool_that_does_not_exist(bench: LanesBench, later: Later, caplog: pytest.LogCaptureFixture) -> None:
    limited(pool="nowhere")
    add_some(2)
    bench.turn()
    bench.tick()
    assert bench.numbers == []
    assert [record.getMessage() for record in caplog.records if "nowhere" in record.getMessage()] != []
    assert len([record for record in caplog.records if "nowhere" in record.getMessage()]) == 1
    Pool("nowhere").add("now")
    later(bench.options.poll_interval)
    bench.turn()
    assert bench.numbers == ["0"]


def test_what_the_run_gets_of_its_resource(bench: LanesBench) -> None:
    Pool("proxies").add("a", {"port": 1})
    limited(pool="proxies")
    add("1")
    bench.turn()
    resource = bench.run_of("1").resource
    assert (resource.name, resource.payload, resource.is_held) == ("a", {"port": 1}, True)
    resource.check()
    bench.end_run("1", verbs.done(bench.run_of("1")))
    with Pool("proxies").lease(wait=0) as free:
        assert free.name == "a"


def test_of_several_limits_all_must_allow(bench: LanesBench) -> None:
    Pool("proxies").add("a")
    limited(max_concurrent=2, pool="proxies", rate="5/h")
    add_some(3)
    bench.turn()
    bench.tick()
    assert bench.numbers == ["0"]
    assert used_starts() == 1
    assert Resource.objects.filter(pool__startswith="ddt.slots.").exclude(task_id=None).count() == 1


def used_starts() -> int:
    starts = Resource.objects.filter(pool__startswith="ddt.starts.")
    return starts.filter(busy_before__gt=clock.host_now()).count()


def test_what_was_had_is_given_back_when_the_rate_says_no(bench: LanesBench, later: Later) -> None:
    for name in ("a", "b", "c"):
        Pool("proxies").add(name)
    limited(max_concurrent=3, pool="proxies", rate="1/h")
    add_some(3)
    bench.turn()
    assert bench.numbers == ["0"]
    assert Resource.objects.filter(pool="proxies").exclude(holder="").count() == 1
    assert Resource.objects.filter(pool__startswith="ddt.slots.").exclude(task_id=None).count() == 1


def test_nothing_is_granted_without_a_lease(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(max_concurrent=1)
    add("1")
    bench.poller.poll()
    monkeypatch.setattr(bench.lease, "claims_until", NEVER)
    bench.tick()
    assert bench.numbers == []
    monkeypatch.undo()
    bench.tick()
    assert bench.numbers == ["1"]


def test_a_permit_that_comes_while_the_lanes_look_is_not_slept_over(
    bench: LanesBench, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(rate="1/h")
    add_some(2)
    bench.turn()
    lane = bench.lanes.get("code")
    assert lane
    lane.resumes_at = clock.monotonic() + 0.1
    to_read = Lane.to_read

    def slowly(*args: Any) -> Any:
        places = to_read(*args)
        later(0.2)
        return places

    monkeypatch.setattr(Lane, "to_read", slowly)
    assert bench.tick() == pytest.approx(0.1)


def test_a_handler_that_becomes_limited_keeps_its_limit(bench: LanesBench) -> None:
    """Its tasks were added without a lane; the limit is asked for when they are claimed."""
    handler = handler_of(lambda task: None)
    add_some(3)
    handler.max_concurrent = 1
    bench.turn()
    bench.turn()
    assert bench.numbers == ["0"]

"""What becomes of a task while it waits for a permit: it is pending, and every verb works as on any other task."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_delayed_tasks import api, clock
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules.verbs import RUN_NOW, Edit
from django_delayed_tasks.store.sql.lanes import blocked_lane, open_lane
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add, handler_of
from tests.store import verbs

MakeBench = Callable[..., LanesBench]
Later = Callable[[float], None]
HOUR = timedelta(hours=1)


def by_customer() -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)


@pytest.fixture
def blocked(bench: LanesBench) -> Task:
    """A task that is blocked by a run of its key."""
    by_customer()
    add_some(2, biz_ext="x")
    bench.turn()
    task = verbs.present("1", "code")
    assert task.lane == blocked_lane("code", "x")
    return task


def test_no_attempt_is_counted(blocked: Task) -> None:
    assert (blocked.status, blocked.attempts, blocked.rescues, blocked.version) == (TaskStatus.PENDING, 0, 0, 0)


def test_the_end_of_the_run_lets_the_next_one_in(bench: LanesBench, blocked: Task) -> None:
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.tick()
    assert bench.numbers == ["1"]
    assert (bench.run_of("1").attempts, verbs.present("1", "code").lane) == (1, open_lane("code"))


@pytest.mark.parametrize("end", [verbs.retry, verbs.failed, verbs.released])
def test_so_does_every_other_end(bench: LanesBench, blocked: Task, end: Callable[..., object]) -> None:
    settlement = end(bench.run_of("0"), HOUR) if end is verbs.released else end(bench.run_of("0"))
    bench.end_run("0", settlement)  # type: ignore[arg-type]
    bench.tick()
    assert "1" in bench.numbers


CHANGES: dict[str, Callable[[Task], object]] = {
    "add": lambda task: add("1", biz_ext="y"),
    "reschedule": lambda task: api.reschedule_task("code", "1", None),
    "run now": lambda task: RUN_NOW.to_seen(verbs.ALIAS, [(task.pk, task.version)]),
    "edit": lambda task: Edit(biz_ext='"y"').verb().to_seen(verbs.ALIAS, [(task.pk, task.version)]),
    "pause": lambda task: (api.pause_task("code", "1"), api.resume_task("code", "1")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_task_waits_in_the_lane_of_its_code_again(blocked: Task, change: str) -> None:
    """Its key may be another one now."""
    CHANGES[change](blocked)
    assert verbs.present("1", "code").lane == open_lane("code")


@pytest.mark.parametrize("change", ["add", "edit"])
def test_with_another_key_it_starts(bench: LanesBench, blocked: Task, change: str) -> None:
    CHANGES[change](blocked)
    bench.turn()
    assert bench.numbers == ["0", "1"]


def test_a_blocked_task_can_be_cancelled(bench: LanesBench, blocked: Task) -> None:
    api.cancel_task("code", "1")
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.tick()
    assert not Task.objects.exists()


def test_and_rescheduled(bench: LanesBench, blocked: Task) -> None:
    api.reschedule_task("code", "1", HOUR)
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.turn()
    assert bench.numbers == []
    assert verbs.present("1", "code").status == TaskStatus.PENDING


def test_what_expires_while_it_is_blocked_uses_no_permit(bench: LanesBench, blocked: Task) -> None:
    add("2", biz_ext="x")
    bench.turn()
    Task._base_manager.filter(biz_num="1").update(expires_at=clock.host_now() - HOUR)
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.tick()
    assert bench.numbers == ["2"]
    assert not Task.objects.filter(biz_num="1").exists()


def test_after_a_crash_another_executor_finds_what_is_blocked(
    bench: LanesBench, blocked: Task, make_bench: MakeBench, later: Later
) -> None:
    """The run has ended, and its executor died before it could claim the next one of the key."""
    other = make_bench("other")
    other.turn()
    assert other.numbers == []
    verbs.settle(verbs.done(bench.run_of("0")))
    later(7.0)
    other.lease.renew()
    other.turn()
    assert other.numbers == ["1"]


def test_the_blocker_looks_again(bench: LanesBench, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the key ends between the look at the slots and the block; its executor has looked in vain."""
    by_customer()
    add("0", biz_ext="x")
    bench.turn()
    other = make_bench("other")
    other.turn()
    add("1", biz_ext="x")
    usual = other.lanes._written

    def ended_meanwhile(*arguments: object) -> object:
        bench.end_run("0", verbs.done(bench.run_of("0")))
        bench.tick()
        monkeypatch.setattr(other.lanes, "_written", usual)
        return usual(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(other.lanes, "_written", ended_meanwhile)
    other.turn()
    other.tick()
    assert bench.numbers == []
    assert other.numbers == ["1"]


def test_a_handler_that_has_become_limited(bench: LanesBench) -> None:
    """Its tasks were added by processes that did not know."""
    limited(max_concurrent=1)
    add_some(3)
    Task._base_manager.update(lane="")
    bench.turn()
    bench.settle()
    assert set(Task.objects.values_list("lane", "attempts", "status")) == {("=code", 0, 0)}
    bench.turn()
    assert bench.numbers == ["0"]


def test_a_handler_that_is_limited_no_more(bench: LanesBench, later: Later) -> None:
    handler_of(lambda task: None)
    add_some(2)
    add("2", biz_ext="x")
    Task._base_manager.update(lane=open_lane("code"))
    Task._base_manager.filter(biz_num="2").update(lane=blocked_lane("code", "x"))
    bench.turn()
    later(4.0)
    bench.lease.renew()
    bench.tick()
    assert sorted(bench.numbers) == ["0", "1", "2"]


def test_a_drain_serves_blocked_tasks(make_bench: MakeBench) -> None:
    bench = make_bench(drain=True)
    by_customer()
    add_some(3, biz_ext="x")
    for number in ("0", "1", "2"):
        bench.poller.poll()
        bench.poller.poll()
        assert bench.numbers == [number]
        assert not bench.poller.drained.is_set()
        bench.end_run(number, verbs.done(bench.run_of(number)))
    for _ in range(2):
        bench.poller.poll()
    assert bench.poller.drained.is_set()


def test_a_drain_waits_for_tasks_that_others_have_blocked(
    bench: LanesBench, blocked: Task, make_bench: MakeBench
) -> None:
    drain = make_bench("drain", drain=True)
    for _ in range(3):
        drain.poller.poll()
    assert not drain.poller.drained.is_set()
    verbs.settle(verbs.done(bench.run_of("0")))
    drain.poller.poll()
    assert drain.numbers == ["1"]

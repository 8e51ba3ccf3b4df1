"""The gate: who may run, who waits, and that nobody else has to."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.executor.limits.gate import PATIENCE
from django_delayed_tasks.executor.limits.permits import Permits
from django_delayed_tasks.executor.limits.room import LONGEST, OF_LATE, PER_KEY, SPAN, Room
from django_delayed_tasks.leases.pool import Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store import ClaimedTask
from tests.executor.parts import add, claim, handler_of, registered
from tests.limits.parts import GateBench
from tests.store import verbs

MakeBench = Callable[..., GateBench]
Later = Callable[[float], None]


def limited(code: str = "code", **limits: Any) -> None:
    handler_of(lambda task: None, code, **limits)


def add_some(count: int, code: str = "code", prefix: str = "", **fields: Any) -> None:
    for number in range(count):
        add(f"{prefix}{number}", code, **fields)


def test_handlers_without_limits_pass_at_once(bench: GateBench) -> None:
    limited()
    add_some(3)
    bench.poller.poll()
    assert bench.numbers == ["0", "1", "2"]
    assert bench.gate.is_empty


@pytest.mark.parametrize("limits", [{"max_concurrent": 2}, {"rate": "2/h"}, {"pool": "proxies"}])
def test_no_more_than_the_limit_run(bench: GateBench, limits: dict[str, Any]) -> None:
    for name in ("a", "b"):
        Pool("proxies").add(name)
    limited(**limits)
    add_some(5)
    bench.turn()
    bench.gate.tick()
    assert bench.numbers == ["0", "1"]


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"pool": "proxies"}])
def test_the_next_one_when_a_run_has_ended(bench: GateBench, limits: dict[str, Any]) -> None:
    Pool("proxies").add("only")
    limited(**limits)
    add_some(3)
    bench.turn()
    for number in ("0", "1", "2"):
        assert bench.numbers == [number]
        bench.end_run(number, verbs.done(bench.run_of(number)))
        bench.gate.tick()
    assert not Task.objects.exists()


def test_in_the_whole_cluster(make_bench: MakeBench) -> None:
    limited(max_concurrent=3)
    add_some(8)
    benches = [make_bench(name, batch_size=3) for name in ("one", "two", "three")]
    for _ in range(3):
        for bench in benches:
            bench.turn()
    assert sum(len(bench.running) for bench in benches) == 3


def test_others_are_not_blocked(bench: GateBench) -> None:
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
    assert bench.inflight.unfinished == len(bench.running) == 2


def test_no_more_than_there_are_threads_for(make_bench: MakeBench) -> None:
    bench = make_bench(threads=2)
    limited(max_concurrent=5)
    add_some(6)
    bench.turn()
    bench.gate.tick()
    assert bench.numbers == ["0", "1"]
    assert Resource.objects.exclude(task_id=None).count() == 2


def test_released_after_a_while_without_an_attempt(bench: GateBench, later: Later) -> None:
    limited(max_concurrent=1)
    add_some(3)
    bench.turn()
    later(PATIENCE + 0.1)
    bench.gate.tick()
    assert bench.numbers == ["0"]
    waiting = Task.objects.filter(status=TaskStatus.PENDING)
    assert {(task.biz_num, task.attempts, task.rescues) for task in waiting} == {("1", 0, 0), ("2", 0, 0)}
    assert bench.gate.is_empty
    assert verbs.outcomes("1", "code") == []


def test_runs_that_waited_long_are_first_attempts(bench: GateBench, later: Later) -> None:
    limited(max_concurrent=1)
    add_some(2)
    for _ in range(3):
        bench.turn()
        later(PATIENCE + 0.1)
        bench.gate.tick()
        Task.objects.filter(status=TaskStatus.PENDING).update(claim_at=Task.objects.earliest("create_time").create_time)
        bench.poller.forget()
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.turn()
    assert bench.run_of("1").attempts == 1


def test_can_be_cancelled_while_it_waits(bench: GateBench, later: Later) -> None:
    limited(max_concurrent=1)
    add_some(2)
    bench.turn()
    api.cancel_task("code", "1")
    later(PATIENCE + 0.1)
    bench.gate.tick()
    assert [task.biz_num for task in Task.objects.all()] == ["0"]


def test_no_more_are_claimed_than_there_are_threads_for(make_bench: MakeBench) -> None:
    """As many as wait can be started at once, if there are permits for them."""
    bench = make_bench(threads=4, batch_size=100)
    limited(max_concurrent=1)
    add_some(30)
    for _ in range(5):
        bench.turn()
    assert Task.objects.filter(status=TaskStatus.RUNNING).count() < 4 + 4 + 1


def test_the_limit_is_for_each_key(bench: GateBench) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    for number, customer in enumerate(["x", "x", "y", None, None]):
        add(str(number), biz_ext=customer)
    bench.turn()
    assert bench.numbers == ["0", "2", "3"]


def test_a_key_with_many_does_not_keep_others_from_being_claimed(bench: GateBench) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    add_some(30, biz_ext="many")
    bench.turn()
    add("other", biz_ext="few")
    for _ in range(5):  # each claims as many as there are threads
        bench.turn()
    assert bench.numbers == ["0", "other"]
    assert len(bench.released) == 30 - 1 - PER_KEY


def test_of_a_key_with_very_many_the_rest_is_moved_out_of_the_way(bench: GateBench, later: Later) -> None:
    """So that the others need not wait until each of them was claimed."""
    later(0.0)
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    tasks = [Task(biz_code="code", biz_num=f"{number:05}", when=None, biz_ext="many") for number in range(1500)]
    api.add_tasks(tasks)
    add("other", biz_ext="few")
    for _ in range(12):
        bench.turn()
        later(0.2)
    assert bench.numbers == ["00000", "other"]
    assert len(bench.released) < 200


@pytest.mark.parametrize("key", [lambda self, task: 1 / 0, lambda self, task: 5])
def test_a_key_that_cannot_be_told_fails_its_own_task(bench: GateBench, key: Any) -> None:
    limited(max_concurrent=1, concurrency_key=key)
    limited("other")
    add("1")
    add("2", "other")
    bench.turn()
    assert bench.numbers == ["2"]
    [settlement] = bench.failed
    assert "test_gate" in settlement.error or "concurrency_key() gave 5" in settlement.error
    assert bench.gate.is_empty
    assert bench.inflight.unfinished == 1


def test_a_pool_that_nobody_made(bench: GateBench, caplog: pytest.LogCaptureFixture) -> None:
    limited(pool="nowhere")
    add_some(2)
    bench.turn()
    bench.gate.tick()
    assert bench.numbers == []
    assert [record.getMessage() for record in caplog.records if "nowhere" in record.getMessage()] != []
    assert len([record for record in caplog.records if "nowhere" in record.getMessage()]) == 1
    Pool("nowhere").add("now")
    bench.gate.tick()
    assert bench.numbers == ["0"]


def test_what_the_run_gets_of_its_resource(bench: GateBench) -> None:
    Pool("proxies").add("a", {"port": 1})
    limited(pool="proxies")
    add("1")
    bench.turn()
    resource = bench.run_of("1").resource
    assert (resource.name, resource.payload, resource.is_held) == ("a", {"port": 1}, True)
    resource.check()
    bench.end_run("1", verbs.done(bench.run_of("1")))
    with Pool("proxies").lease(wait=0) as free:
        assert free.token > resource.token if resource.is_held else free.name == "a"


def test_of_several_limits_all_must_allow(bench: GateBench) -> None:
    Pool("proxies").add("a")
    limited(max_concurrent=2, pool="proxies", rate="5/h")
    add_some(3)
    bench.turn()
    bench.gate.tick()
    assert bench.numbers == ["0"]
    assert used_starts() == 1
    assert Resource.objects.filter(pool__startswith="ddt.slots.").exclude(task_id=None).count() == 1


def used_starts() -> int:
    starts = Resource.objects.filter(pool__startswith="ddt.starts.")
    return starts.exclude(busy_before__lt=Task.objects.earliest("create_time").create_time).count()


def test_what_was_had_is_given_back_when_the_rate_says_no(bench: GateBench, later: Later) -> None:
    for name in ("a", "b", "c"):
        Pool("proxies").add(name)
    limited(max_concurrent=3, pool="proxies", rate="1/h")
    add_some(3)
    bench.turn()
    assert bench.numbers == ["0"]
    assert Resource.objects.filter(pool="proxies").exclude(holder="").count() == 1
    assert Resource.objects.filter(pool__startswith="ddt.slots.").exclude(task_id=None).count() == 1


def test_of_a_slow_rate_nobody_waits_here(bench: GateBench) -> None:
    """The next start is an hour away: they are released at once."""
    limited(rate="1/h")
    add_some(3)
    bench.turn()
    bench.gate.tick()
    assert bench.numbers == ["0"]
    assert bench.gate.is_empty
    assert {settlement.claim[0] for settlement in bench.released} == set(
        Task.objects.filter(status=TaskStatus.PENDING).values_list("id", flat=True)
    )


def test_a_backlog_behind_a_slow_rate_is_moved_out_of_the_way(bench: GateBench) -> None:
    limited(rate="3/h")
    limited("other")
    api.add_tasks(Task(biz_code="code", biz_num=f"{number:05}", when=None) for number in range(1500))
    bench.turn()
    bench.gate.tick()
    assert bench.numbers == ["00000", "00001", "00002"]
    add("other", "other")
    bench.turn()
    assert "other" in bench.numbers
    assert len(bench.released) < 20


def test_what_waits_long_comes_back_seldom(later: Later) -> None:
    """The more there are, the later, so that all together cost about the same."""
    handler = handler_of(lambda task: None, max_concurrent=1)
    room = Room(handler, Permits("default", handler, timedelta(seconds=15)))
    later(0.0)
    assert room.pause(0.25, 1) == (0.25, 0.75)
    assert room.pause(0.25, 99) == (0.25, 5.25)
    later(OF_LATE + 0.1)
    assert room.pause(3600.0, 1)[0] == LONGEST


def room_of(count: int, **limits: Any) -> tuple[Room, list[ClaimedTask]]:
    """A room where so many wait."""
    handler = handler_of(lambda task: None, **limits)
    room = Room(handler, Permits("default", handler, timedelta(seconds=15)))
    add_some(count)
    tasks = claim(registered(), limit=count)
    for task in tasks:
        room.enter(task, "")
    return room, tasks


@pytest.mark.django_db
def test_the_speed_of_late(later: Later) -> None:
    room, tasks = room_of(30, max_concurrent=10)
    later(0.0)
    assert room.speed == 0
    room.note_granted(tasks[:10], 20)
    later(1.0)
    assert room.short_for == pytest.approx(1.0)
    assert room.speed == pytest.approx(10.0)
    later(9.0)
    assert room.speed == 0
    room.note_granted(tasks[10:20], 20)
    later(0.5)
    assert room.speed == pytest.approx(10 / SPAN)


@pytest.mark.django_db
def test_threads_are_not_permits(later: Later) -> None:
    """As many as were asked for were granted."""
    room, tasks = room_of(30, max_concurrent=10)
    later(0.0)
    room.note_granted(tasks[:10], 10)
    later(5.0)
    assert room.short_for == 0


@pytest.mark.django_db
def test_the_speed_of_a_rate_is_its_own_in_the_long_run(later: Later) -> None:
    """It begins with a burst."""
    room, tasks = room_of(30, rate="60/m")
    later(0.0)
    room.note_granted(tasks[:20], 30)
    later(0.1)
    assert room.speed == pytest.approx(1.0)


@pytest.mark.parametrize("change", ["cancel", "reschedule", "add"])
def test_what_is_changed_while_it_waits_does_not_start(bench: GateBench, later: Later, change: str) -> None:
    later(0.0)
    limited(max_concurrent=1)
    add_some(2)
    bench.turn()
    changes: dict[str, Callable[[], object]] = {
        "cancel": lambda: api.cancel_task("code", "1"),
        "reschedule": lambda: api.reschedule_task("code", "1", timedelta(hours=1)),
        "add": lambda: add("1", when=timedelta(hours=1)),
    }
    changes[change]()
    bench.end_run("0", verbs.done(bench.run_of("0")))
    later(0.2)
    bench.gate.tick()
    assert bench.numbers == []
    assert bench.gate.is_empty
    if change == "cancel":
        assert not Task.objects.exists()
        assert verbs.outcomes("1", "code") == [RunOutcome.CANCELLED]
    else:
        row = verbs.present("1", "code")
        assert (row.status, row.attempts) == (TaskStatus.PENDING, 0)
        assert (row.when - row.create_time).total_seconds() > 3500


def test_taken_back_while_permits_are_taken(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given back already, it is not started."""
    limited(max_concurrent=1)
    add("1")
    usual = Permits.take
    taken: list[ClaimedTask] = []

    def take(self: Permits, tasks: dict[ClaimedTask, str], most: int) -> Any:
        granted = usual(self, tasks, most)
        taken.extend(bench.gate.take_back())
        return granted

    monkeypatch.setattr(Permits, "take", take)
    bench.turn()
    assert [task.biz_num for task in taken] == ["1"]
    assert bench.numbers == []
    assert bench.inflight.unfinished == 0


def test_taken_back_when_the_executor_ends(bench: GateBench) -> None:
    limited(max_concurrent=1)
    add_some(3)
    bench.turn()
    add("late")
    assert sorted(task.biz_num for task in bench.gate.take_back()) == ["1", "2"]
    assert bench.gate.is_empty
    bench.gate.tick()
    assert bench.numbers == ["0"]


def test_nothing_is_granted_without_a_lease(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(max_concurrent=1)
    add("1")
    bench.poller.poll()
    monkeypatch.setattr(type(bench.lease), "may_claim", property(lambda self: False))
    bench.gate.tick()
    assert bench.numbers == []
    monkeypatch.undo()
    bench.gate.tick()
    assert bench.numbers == ["1"]


def test_a_backlog_is_moved_out_of_the_way(bench: GateBench, later: Later) -> None:
    """The claims of others do not read it; its tasks come back by themselves."""
    later(0.0)
    limited(max_concurrent=1)
    limited("other")
    api.add_tasks(Task(biz_code="code", biz_num=f"{number:05}", when=None) for number in range(1500))
    bench.turn()
    due = Task.objects.get(biz_num="01499").claim_at
    add("other", "other")
    bench.turn()
    assert "other" in bench.numbers
    for _ in range(7):
        later(0.2)
        bench.turn()
    assert Task.objects.filter(status=TaskStatus.PENDING, claim_at__lte=due).count() < 10
    latest = Task.objects.latest("claim_at")
    assert (latest.claim_at - due).total_seconds() <= LONGEST + 60


def test_what_is_soon_let_through_stays(bench: GateBench, later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    later(0.0)
    limited(max_concurrent=1)
    api.add_tasks(Task(biz_code="code", biz_num=f"{number:05}", when=None) for number in range(300))
    monkeypatch.setattr(bench.gate, "speed", lambda code: 1000.0)
    for _ in range(7):
        bench.turn()
        later(0.2)
    assert set(Task.objects.filter(status=TaskStatus.PENDING).values_list("version", flat=True)) == {0}


def test_a_drain_waits_for_all(make_bench: MakeBench, later: Later) -> None:
    bench = make_bench(drain=True)
    limited(max_concurrent=1, concurrency_key=lambda self, task: "one")
    add_some(3 * PER_KEY)
    bench.turn()
    later(PATIENCE + 0.1)
    bench.turn()
    assert bench.released == []
    assert not bench.gate.is_empty

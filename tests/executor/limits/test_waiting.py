"""What becomes of a task while it waits at the gate."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.executor.limits.gate import PATIENCE
from django_delayed_tasks.executor.limits.permits import Permits
from django_delayed_tasks.executor.limits.waiting_room import PER_KEY
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from tests.executor.limits.parts import GateBench, add_some, limited
from tests.executor.parts import add
from tests.store import verbs

MakeBench = Callable[..., GateBench]
Later = Callable[[float], None]


def test_released_after_a_while_without_an_attempt(bench: GateBench, later: Later) -> None:
    limited(max_concurrent=1)
    add_some(3)
    bench.turn()
    later(PATIENCE + 0.1)
    bench.tick()
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
        bench.tick()
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
    bench.tick()
    assert [task.biz_num for task in Task.objects.all()] == ["0"]


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
    bench.tick()
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
    assert bench.held.unfinished == 0


def test_taken_back_when_the_executor_ends(bench: GateBench) -> None:
    limited(max_concurrent=1)
    add_some(3)
    bench.turn()
    add("late")
    assert sorted(task.biz_num for task in bench.gate.take_back()) == ["1", "2"]
    assert bench.gate.is_empty
    bench.tick()
    assert bench.numbers == ["0"]


def test_a_drain_waits_for_all(make_bench: MakeBench, later: Later) -> None:
    bench = make_bench(drain=True)
    limited(max_concurrent=1, concurrency_key=lambda self, task: "one")
    add_some(3 * PER_KEY)
    bench.turn()
    later(PATIENCE + 0.1)
    bench.turn()
    assert bench.released == []
    assert not bench.gate.is_empty

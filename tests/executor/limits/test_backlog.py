"""What waits in great numbers is moved out of the way of others, and comes back by itself."""

from collections.abc import Callable

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.executor.limits.waiting_room import LONGEST
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.executor.limits.parts import GateBench, add_some, limited
from tests.executor.parts import add

Later = Callable[[float], None]


def test_of_a_key_with_very_many_the_rest_is_moved_out_of_the_way(bench: GateBench, later: Later) -> None:
    """The tasks of other keys need not wait until each of them was claimed."""
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


def test_no_task_waits_here_for_a_slow_rate(bench: GateBench) -> None:
    """The next start is an hour away: they are released at once."""
    limited(rate="1/h")
    add_some(3)
    bench.turn()
    bench.tick()
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
    bench.tick()
    assert bench.numbers == ["00000", "00001", "00002"]
    add("other", "other")
    bench.turn()
    assert "other" in bench.numbers
    assert len(bench.released) < 20


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

"""What waits in great numbers is in the way of nothing else, and is not touched while it waits."""

from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.sql.tables import TASK
from harness.benchmarks import stock
from tests.executor.limits.parts import LanesBench, limited
from tests.executor.parts import add
from tests.store import verbs
from tests.store.meters import reads, statements

MANY = 1500


def add_many(**fields: Any) -> None:
    api.add_tasks(Task(biz_code="code", biz_num=f"{number:05}", when=None, **fields) for number in range(MANY))


@pytest.mark.parametrize("limits", [{"max_concurrent": 1}, {"rate": "1/h"}])
def test_a_backlog_is_left_as_it_is(bench: LanesBench, limits: dict[str, Any]) -> None:
    limited(**limits)
    limited("other")
    add_many()
    bench.turn()
    add("other", "other")
    for _ in range(5):
        bench.turn()
    assert bench.numbers == ["00000", "other"]
    assert set(Task.objects.filter(status=TaskStatus.PENDING).values_list("version", "lane")) == {(0, "=code")}


def test_behind_a_key_with_very_many_another_key_starts(bench: LanesBench) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    add_many(biz_ext="many")
    add("other", biz_ext="few")
    for _ in range(5):
        bench.turn()
    assert bench.numbers == ["00000", "other"]


def test_blocked_tasks_are_read_by_no_poll(bench: LanesBench) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    add_many(biz_ext="many")
    for _ in range(5):
        bench.turn()
    assert Task.objects.filter(lane__startswith="~").count() == MANY - 1
    # MySQL decides by its statistics, which it refreshes in the background: those of another test's rows may say that a
    # level has few tasks, and that reading the whole index is no more than reading each level.
    stock.analyze(TASK)
    with reads() as read:
        bench.turn()
    assert read.total < MANY / 10


def test_what_a_run_costs(bench: LanesBench) -> None:
    """Candidates, their locks, the slots, the claim: four statements in one transaction, however many tasks wait."""
    limited(max_concurrent=3)
    add_many()
    bench.turn()
    bench.end_run("00000", verbs.done(bench.run_of("00000")))
    with statements() as counted:
        bench.lanes.tick()
    assert len(bench.running) == 3
    assert len(counted) <= 6

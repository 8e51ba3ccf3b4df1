"""An executor that was declared dead and has a new id: which of its waiting tasks it drops, and which it releases."""

from typing import Any

import pytest

from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from tests.executor.parts import Bench, add, handler_of

pytestmark = pytest.mark.django_db


def begin_another_life(bench: Bench) -> None:
    """What the heartbeat does when other executors have declared this one dead."""
    Executor.objects.update(alive=None)
    assert not bench.lease.renew()
    bench.lease.acquire()


def status_of(num: str) -> TaskStatus:
    return TaskStatus(Task.objects.get(biz_num=num).status)


@pytest.fixture(params=[{}, {"max_concurrent": 9}], ids=["unlimited", "limited"])
def handler(request: pytest.FixtureRequest) -> Any:
    return handler_of(lambda task: None, **request.param)


@pytest.fixture
def unlimited() -> Any:
    return handler_of(lambda task: None)


@pytest.mark.usefixtures("handler")
def test_what_waits_is_dropped(bench: Bench) -> None:
    """Other executors own it, or will reap it."""
    add("waits")
    bench.poller.poll()
    bench.lanes.tick()
    begin_another_life(bench)
    bench.poller.poll()
    assert (len(bench.held), len(bench.queue)) == (0, 0)
    assert (bench.released, bench.capacity.claimed) == ([], 0)
    assert status_of("waits") == TaskStatus.RUNNING


@pytest.mark.usefixtures("unlimited")
def test_what_it_has_claimed_since_is_released(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll was under way. This executor is alive, so no other one would reap what it only dropped."""
    add("before", priority=1)
    add("since")
    usual = bench.poller._claim

    def claim(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
        tasks = usual(alias, request)
        if request.priority == 1:
            begin_another_life(bench)
        return tasks

    monkeypatch.setattr(bench.poller, "_claim", claim)
    bench.poller.poll()
    monkeypatch.undo()
    assert [task.executor for task in bench.held.tasks() if task.biz_num == "since"] == [bench.lease.executor]
    bench.poller.poll()
    bench.settle()
    assert (status_of("before"), status_of("since")) == (TaskStatus.RUNNING, TaskStatus.PENDING)
    assert Task.objects.get(biz_num="since").attempts == 0
    assert len(bench.held) == 0

"""What an executor held when it was killed, or stood still, comes back by itself; what a living one holds does not."""

import signal
from collections.abc import Callable
from functools import partial

import pytest

from django_delayed_tasks.api import add_task
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import ExecutorStatus, RunOutcome
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import incarnations, is_settled, outcomes
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

SHORT_LEASE = {"LEASE": 1.5, "HEARTBEAT": 0.5, "POLL_INTERVAL": 0.1}


def kill(child: Child) -> None:
    child.send(signal.SIGKILL)


@pytest.mark.parametrize("code", ["single", "pooled"])
@pytest.mark.parametrize("end", [kill, Child.pause])
def test_comes_back_from_the_dead(starttask: Start, folder: Folder, code: str, end: Callable[[Child], None]) -> None:
    Pool("gateways").add("only")
    gates = [folder.shut("1"), folder.shut("2")]
    first = starttask("--name", "first", **SHORT_LEASE).wait_until_ready()
    add_task(Task(biz_code=code, biz_num="1"))
    wait_until(lambda: folder.notes("started", "1", pid=first.pid))
    second = starttask("--name", "second", **SHORT_LEASE).wait_until_ready()
    add_task(Task(biz_code=code, biz_num="2"))
    add_task(Task(biz_code="quick", biz_num="neighbour"))
    wait_until(lambda: is_settled("quick", "neighbour"))
    assert not folder.notes("started", "2")

    end(first)

    wait_until(lambda: folder.notes("started", pid=second.pid))
    for gate in gates:
        gate.open()
    for num in ("1", "2"):
        wait_until(partial(is_settled, code, num))
    assert [note.attempts for note in folder.notes("started", pid=second.pid)] == [1, 1]


@pytest.mark.parametrize("code", ["single", "pooled"])
def test_nothing_is_left_behind_when_it_stops(starttask: Start, folder: Folder, code: str) -> None:
    """What waits for its permit was never claimed, and the permit is free when the run has ended."""
    Pool("gateways").add("only")
    gate = folder.shut("1")
    first = starttask("--name", "first", LEASE=600).wait_until_ready()
    add_task(Task(biz_code=code, biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))
    add_task(Task(biz_code=code, biz_num="2"))
    first.send(signal.SIGTERM)
    wait_until(lambda: incarnations("first")[0].status == ExecutorStatus.STOPPING)
    gate.open()
    assert first.exit_code() == 0
    assert Task.objects.get().attempts == 0
    second = starttask("--name", "second", LEASE=600).wait_until_ready()
    wait_until(lambda: folder.notes("ended", "2", pid=second.pid))
    wait_until(lambda: is_settled(code, "2"))
    assert not Task.objects.exists()
    assert outcomes(code, "2") == [RunOutcome.DONE], "it was left behind"

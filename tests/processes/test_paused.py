"""An executor that stands still for longer than its lease, and then continues as if nothing had happened."""

import signal

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from tests.processes.conftest import Start
from tests.processes.database import alive, incarnations, is_settled, outcomes, task
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

SHORT_LEASE = {"LEASE": 1.5, "HEARTBEAT": 0.5}


def test_zombie_settles_nothing_and_continues_under_a_new_id(starttask: Start, folder: Folder) -> None:
    gate_of_zombie, gate_of_other = folder.shut("1", gates="zombie"), folder.shut("1", gates="other")
    zombie = starttask("--name", "zombie", gates="zombie", **SHORT_LEASE).wait_until_ready()
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1", pid=zombie.pid))

    zombie.pause()
    other = starttask("--name", "other", gates="other").wait_until_ready()
    wait_until(lambda: folder.notes("started", "1", pid=other.pid))

    gate_of_zombie.open()
    zombie.send(signal.SIGCONT)
    zombie.wait_for("1 claim was lost before its run ended, so the task may run again: held 1")
    assert folder.notes("ended", "1", pid=zombie.pid)
    row = task("held", "1")
    assert row is not None
    assert (row.status, row.executor) == (TaskStatus.RUNNING, alive("other").pk)  # type: ignore[union-attr]
    assert outcomes("held", "1") == [RunOutcome.LOST]

    gate_of_other.open()
    wait_until(lambda: is_settled("held", "1"))
    assert outcomes("held", "1") == [RunOutcome.LOST, RunOutcome.DONE]
    other.send(signal.SIGTERM)
    assert other.exit_code() == 0

    add_task(Task(biz_code="quick", biz_num="2"))
    wait_until(lambda: folder.notes("ran", "2", pid=zombie.pid))
    dead, living = incarnations("zombie")
    assert (dead.alive, living.alive) == (None, True)
    assert (dead.status, living.status) == (ExecutorStatus.CRASHED, ExecutorStatus.RUNNING)
    assert incarnations("other")[0].status == ExecutorStatus.STOPPED
    assert dead.pid == living.pid == zombie.pid

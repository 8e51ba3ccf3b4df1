"""Five executors that start together and die at the moment of firing: one row, and one run for each time."""

import signal
import time
from itertools import cycle, pairwise

import pytest
from django.db.models import Count

from django_delayed_tasks.models import Recurrence, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.processes.children import Child
from tests.processes.database import database_now
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until
from tests.recurring.ticking.codes import COMPLETE, LATEST, TRIGGERS, grid
from tests.recurring.ticking.conftest import Execute
from tests.recurring.ticking.history import count_done, done, next_time

NAMES = ("a", "b", "c", "d", "e")
FIRINGS = 300
CODES = (*COMPLETE, *LATEST)


class Cluster:
    """Five executors; one that is killed is started again under its name."""

    def __init__(self, execute: Execute, folder: Folder) -> None:
        self.execute, self.folder = execute, folder
        self.children = {name: execute(name) for name in NAMES}
        self.killed = 0

    def wait_until_ready(self) -> None:
        for child in self.children.values():
            child.wait_until_ready()

    def die_at(self, where: str, code: str) -> None:
        """Whichever runs this code next is killed by it."""
        (self.folder.path / f"die-{where}-{code}").touch()
        wait_until(self.replace_dead)

    def kill_when_due(self, name: str, code: str) -> None:
        """Kill this executor at the moment when the code is due, whichever executor claims it."""
        time.sleep(max(0.0, (next_time(code) - database_now()).total_seconds()))
        self.children[name].send(signal.SIGKILL)
        wait_until(self.replace_dead)

    def replace_dead(self) -> int:
        dead = [name for name, child in self.children.items() if child.process.poll() is not None]
        for name in dead:
            assert self.children[name].exit_code() == -signal.SIGKILL, self.children[name].output
            self.children[name] = self.execute(name)
        self.killed += len(dead)
        return len(dead)

    def end(self) -> None:
        living: list[Child] = list(self.children.values())
        for child in living:
            child.wait_until_ready().send(signal.SIGTERM)
        for child in living:
            assert child.exit_code() == 0, child.output


@pytest.fixture
def cluster(execute: Execute, folder: Folder) -> Cluster:
    return Cluster(execute, folder)


def test_one_row_and_one_run_for_each_time(cluster: Cluster) -> None:
    cluster.wait_until_ready()
    each_once = dict.fromkeys(TRIGGERS, 1)
    assert rows() == each_once
    assert Recurrence.objects.count() == len(TRIGGERS)

    victims = cycle(NAMES)
    for number in range(2):
        cluster.die_at("begin", f"complete-{number}")
        cluster.die_at("end", f"latest-{number}")
        cluster.kill_when_due(next(victims), f"complete-{number + 1}")
    wait_until(lambda: count_done(*CODES) >= FIRINGS and all(count_done(code) >= 5 for code in CODES))
    cluster.end()

    assert cluster.killed == 6
    assert TaskRun.objects.filter(outcome=RunOutcome.LOST).count() >= 4, "each of those killed in mid-run left one"
    assert rows() == each_once
    assert {task.status for task in Task.objects.all()} == {TaskStatus.PENDING}
    for code in COMPLETE:
        times = [*done(code), next_time(code)]
        assert times == grid(times[0], times[-1]), f"{code} missed a time or ran one twice"
    for code in LATEST:
        times = [*done(code), next_time(code)]
        assert all(earlier < later for earlier, later in pairwise(times)), f"{code} ran a time twice"
        assert set(times) <= set(grid(times[0], times[-1])), f"{code} ran at a time that was none"


def rows() -> dict[str, int]:
    """How many rows each code has."""
    return dict(Task.objects.values_list("biz_code").annotate(Count("id")))

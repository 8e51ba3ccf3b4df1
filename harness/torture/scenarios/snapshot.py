"""7. An old snapshot is held open while 300,000 tasks finish: claims stay as quick as they were."""

import time
from datetime import timedelta
from typing import Any

from django_delayed_tasks import api
from django_delayed_tasks.handlers import TaskHandler, register_task_handler
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.request import MARGIN
from harness.torture.claimer import Claimer, p99
from harness.torture.faults.snapshots import OldSnapshot
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

BATCH = 100
BASELINE = 150
"""Claims before the snapshot."""
LATER = 500
"""Tasks that wait for another day, as there are always some."""
WINDOW = 30_000
LIMIT = 2.0
GROWTH = 25
"""Pages that a poll may need more than before: the index is larger. Those of what has finished would be thousands."""


class Nothing(TaskHandler):
    """The handler of tasks that the ledger does not know."""

    biz_code = "x-nothing"
    keep_history = "none"

    def handle(self, task: Any) -> None:
        pass


@register
class Snapshot(Scenario):
    name = "snapshot"
    number = 7
    title = "an old snapshot held open while 300,000 tasks finish: claim p99 at most twice its baseline"
    sizes = {"short": Size(tasks=5_000), "full": Size(tasks=300_000)}
    databases = frozenset({"mariadb", "mysql", "postgres"})  # SQLite deletes in place

    def run(self, world: World) -> None:
        register_task_handler(Nothing())
        api.add_tasks(nothing(f"later {one}", timedelta(days=1)) for one in range(LATER))
        claimer = Claimer(BATCH)
        try:
            self._compare(world, claimer)
        finally:
            claimer.end()
        # While the snapshot is still held, a whole executor runs tasks on time.
        world.cluster.start_many(1)
        for number in range(20):
            world.caller.add("t-plain", f"in the end {number}", timedelta(seconds=0.05 * number))
        api.delete_tasks(Nothing.biz_code, "later")
        world.drain()

    def _compare(self, world: World, claimer: Claimer) -> None:
        size = min(BASELINE, max(10, world.size.tasks // BATCH // 5)) * BATCH
        baseline = p99(finish(claimer, "before", size))
        pages = self._pages(claimer)
        world.inject(OldSnapshot())
        windows = []
        for start in range(0, world.size.tasks, WINDOW):
            windows.append(p99(finish(claimer, f"from {start}", min(WINDOW, world.size.tasks - start))))
            world.sleep(0)
        later_pages = self._pages(claimer)
        figures = ", ".join(f"{1000 * value:.1f}" for value in windows)
        world.fact(f"claim of {BATCH}: p99 {1000 * baseline:.1f} ms before; then, by {WINDOW:,d} tasks: {figures} ms")
        world.fact(
            f"pages of a poll that finds nothing: {pages} before, {later_pages} after {world.size.tasks:,d} tasks"
        )
        # In a short run other work on the server reads more pages than these few tasks; test_pinned.py counts alone.
        if world.size.tasks > WINDOW and later_pages > pages + GROWTH:
            world.violation(f"a poll needs {later_pages} pages, {pages} before")
        # Other work of the machine can only add to one window; finished tasks add to all the windows that follow.
        if world.size.tasks > WINDOW and min(windows[-3:]) > LIMIT * baseline:
            world.violation(f"claim p99 {1000 * min(windows[-3:]):.1f} ms, {1000 * baseline:.1f} ms before")

    @staticmethod
    def _pages(claimer: Claimer) -> int:
        """Return the pages that an empty poll reads, when all that finished is older than the watermark."""
        time.sleep(MARGIN.total_seconds() + 0.5)
        claimer.claim()
        return claimer.pages()


def nothing(num: str, when: timedelta | None = None) -> Task:
    return Task(biz_code=Nothing.biz_code, biz_num=num, when=when)


def finish(claimer: Claimer, name: str, tasks: int) -> list[float]:
    """Add ``tasks`` due tasks and finish them; return how long each claim took, in seconds."""
    api.add_tasks((nothing(f"{name} {one}") for one in range(tasks)), batch_size=2000)
    took = []
    done = 0
    while done < tasks:
        claimed, seconds = claimer.claim()
        done += claimed
        if claimed:
            took.append(seconds)
    return took

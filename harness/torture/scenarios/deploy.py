"""12. A rolling deploy: executors with different sets of handlers. No executor consumes what it cannot run."""

import json
import signal
from collections.abc import Iterable

from django_delayed_tasks.models import Executor as ExecutorRow
from django_delayed_tasks.models import TaskRun
from harness.torture import ledger
from harness.torture.codes import paths_of
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

BEFORE = ("Plain", "Slow", "Again")
AFTER = ("Plain", "Atomic", "Retrying", "AtomicAgain")
"""The new release has new handlers, and two of the old ones are gone."""


@register
class Deploy(Scenario):
    name = "deploy"
    number = 12
    title = "a rolling deploy: executors with different sets of handlers"
    sizes = {
        "short": Size(tasks=90, faults=1, executors=2, threads=2),
        "full": Size(tasks=4_000, faults=6, executors=3, threads=4),
    }
    databases = EVERYWHERE - {"galera"}

    def run(self, world: World) -> None:
        world.load.codes = ("t-plain", "t-slow", "t-again", "t-atomic", "t-retrying", "t-atomic-again")
        # One of each stays: a task whose code no executor knows is postponed for a minute, which is not the point here.
        start(world, "stays-before", BEFORE)
        start(world, "stays-after", AFTER)
        names = [start(world, f"e{number}-0", BEFORE) for number in range(world.size.executors)]
        world.load.start(world.size.tasks, rate=60)
        for roll in range(1, world.size.faults + 1):
            names = [self._replace(world, name, roll) for name in names]
        world.wait_until(lambda: not world.load.is_going_on, "the load", patience=600)
        world.drain()
        self._judge(world)

    @staticmethod
    def _replace(world: World, name: str, roll: int) -> str:
        """Replace one executor by one of the next release (or, every other time, of the last one)."""
        successor = start(world, f"{name.partition('-')[0]}-{roll}", AFTER if roll % 2 else BEFORE)
        world.cluster.forget(name)
        leaving = world.cluster.executors[name]
        leaving.send(signal.SIGTERM)
        world.wait_until(lambda: not leaving.is_alive, f"{name} ends")
        if code := leaving.child.exit_code():
            world.violation(f"{name} made way and ended with {code}")
        world.tally.faults["executor replaced by one of another release"] += 1
        return successor

    @staticmethod
    def _judge(world: World) -> None:
        codes = {row.pk: set(row.codes) for row in ExecutorRow.objects.all()}
        found = ledger.read()
        ended = {(run.executor, run.task_id, run.code) for run in found.runs if run.started}
        for executor, task, code in ended | {(seen.executor, seen.task_id, seen.code) for seen in found.seen}:
            if code not in codes.get(executor or 0, {code}):
                world.violation(f"task {task} ({code}) was consumed by executor {executor}, which cannot run it")
        if lost := TaskRun.objects.filter(biz_code="t-plain", attempt__gt=1).count():
            world.violation(f"{lost} runs of a code that never fails were not the first attempt")
        world.fact(f"{len(codes)} executors of two releases")


def start(world: World, name: str, handlers: Iterable[str]) -> str:
    """An executor with these handlers alone; its name."""
    environment = {"DDT_TORTURE_HANDLERS": json.dumps(paths_of(handlers))}
    settings = {"THREADS": world.size.threads}
    return world.cluster.start(name, environment=environment, settings=settings).wait_until_ready().name

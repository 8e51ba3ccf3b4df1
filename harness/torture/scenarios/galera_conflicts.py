"""How often executors on different nodes are in each other's way when they claim, with affinity and without."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from django_delayed_tasks import Task, api
from django_delayed_tasks.handlers import register_task_handler
from django_delayed_tasks.models import TaskRun
from harness.torture.calls import database_now
from harness.torture.cluster import Executor
from harness.torture.databases.galera import Galera
from harness.torture.galera_handlers import CODE, Nothing, claims_told
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import PATIENCE, TICK, Late, World

AHEAD = timedelta(seconds=8)
"""How long before they are due all tasks are added."""
COUNTERS = ("wsrep_local_cert_failures", "wsrep_local_bf_aborts")
WAYS = {
    "one node, with affinity": (1, ""),
    "three nodes, with affinity": (3, ""),
    "three nodes, all at the head of the queue": (3, "none"),
}


@register
class Conflicts(Scenario):
    """Three executors drain the same tasks, which all become due at one moment."""

    name = "galera-conflicts"
    title = "three executors drain one queue: conflicts at COMMIT, with affinity and without"
    databases = frozenset({"galera"})
    sizes = {"short": Size(tasks=2000), "full": Size(tasks=15_000)}

    def run(self, world: World) -> None:
        register_task_handler(Nothing)
        for way, (nodes, affinity) in WAYS.items():
            self._drain(world, way, nodes, affinity)

    def _drain(self, world: World, way: str, nodes: int, affinity: str) -> None:
        executors = list(self._start(world, nodes, affinity))
        number = world.size.tasks
        due = database_now() + AHEAD
        for start in range(0, number, 5000):
            rows = range(start, min(number, start + 5000))
            api.add_tasks(Task(biz_code=CODE, biz_num=f"{way}-{row}", when=due) for row in rows)
        # By now each executor has heard of the others.
        _await(lambda: database_now() > due)
        before = conflicts(world)
        _await(lambda: not Task.objects.exists())
        seconds = (database_now() - due).total_seconds()
        failures, aborts = (after - then for after, then in zip(conflicts(world), before, strict=True))
        runs = TaskRun.objects.filter(biz_code=CODE).count()
        if runs != number:
            world.violation(f"{way}: {number} tasks had {runs} runs")
        claims = [claim for executor in executors for claim in claims_told(executor.child.output)]
        wanted, won = (sum(parts) for parts in zip(*claims, strict=True))
        world.fact(f"{way}: {number:,d} tasks, {number / seconds:,.0f}/s; {failures + aborts} conflicts:")
        world.fact(f"  {failures} certification failures and {aborts} transactions aborted for another node's,")
        world.fact(f"  {1000 * (failures + aborts) / number:.2f} in 1,000 tasks; {len(claims)} claims, of whose rows")
        world.fact(f"  {100 * (wanted - won) / won:.1f} % were lost to others")
        TaskRun.objects.filter(biz_code=CODE).delete()
        for executor in executors:
            world.cluster.forget(executor.name)
        world.cluster.end()

    def _start(self, world: World, nodes: int, affinity: str) -> Iterator[Executor]:
        handlers = f'["{Nothing.__module__}.{Nothing.__qualname__}"]'
        environment = {"DDT_GALERA_AFFINITY": affinity, "DDT_TORTURE_HANDLERS": handlers}
        for number in range(3):
            url = world.database.urls[number % nodes]
            yield world.cluster.start(f"drains{number + 1}", url=url, environment=environment).wait_until_ready()


def _await(predicate: Callable[[], bool]) -> None:
    """Wait as ``world.wait_until`` does, without the invariants: the ledger does not know these tasks."""
    deadline = time.monotonic() + PATIENCE
    while not predicate():
        if time.monotonic() > deadline:
            raise Late(f"not drained within {PATIENCE:g} s")
        time.sleep(TICK)


def conflicts(world: World) -> list[int]:
    """Certification failures, and transactions that were aborted for another node's, of all nodes together."""
    assert isinstance(world.database, Galera)
    status = [node.status() for node in world.database.cluster.nodes]
    return [sum(int(one[name]) for one in status) for name in COUNTERS]

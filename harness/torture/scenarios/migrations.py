"""The lock time of each migration: how long a write waits while it is applied to large tables."""

import time

from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from harness.benchmarks import stock
from harness.torture.locking import MOST, Writer
from harness.torture.result import empty_tables
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

APP = "django_delayed_tasks"


@register
class Migrations(Scenario):
    name = "migrations"
    title = "the lock time of each migration on large tables"
    sizes = {"short": Size(tasks=0, extra=10_000), "full": Size(tasks=0, extra=300_000)}
    """``extra`` is the number of tasks, and of runs in the history."""
    databases = EVERYWHERE - {"galera"}

    def run(self, world: World) -> None:
        first, *later = names()
        stock.add_waiting(0, world.size.extra, 1)
        stock.add_runs(0, world.size.extra)
        try:
            call_command("migrate", APP, first, verbosity=0)
            stock.finish_writing()
            for name in later:
                self._apply(world, name)
        except Exception:
            empty_tables()
            call_command("migrate", verbosity=0)
            raise
        empty_tables()

    @staticmethod
    def _apply(world: World, name: str) -> None:
        begun = time.monotonic()
        with Writer().at_work() as writer:
            call_command("migrate", APP, name, verbosity=0)
        took = time.monotonic() - begun
        rows = f"{world.size.extra:,d} tasks and as many runs"
        world.fact(f"{name}, {rows}: a write waited for {writer.longest:.3f} s at most; it took {took:.2f} s")
        if writer.longest > MOST:
            world.violation(f"no_pause: {name}: a write waited for {writer.longest:.1f} s")


def names() -> list[str]:
    """Return the migrations of the package, in their order."""
    graph = MigrationLoader(connection).graph
    [last] = graph.leaf_nodes(APP)
    return [name for app, name in graph.forwards_plan(last) if app == APP]

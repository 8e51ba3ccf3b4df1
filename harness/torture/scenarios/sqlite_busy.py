"""14. SQLite: four processes on one file, and again and again a writer that takes longer than they wait."""

from harness.torture.crowd import Crowd
from harness.torture.faults.writers import LongWriter
from harness.torture.scenario import Scenario, Size, register
from harness.torture.scenarios.deadlocks import call
from harness.torture.world import World


@register
class SQLiteBusy(Scenario):
    name = "sqlite-busy"
    number = 14
    title = "four processes on one SQLite file under a long writer"
    sizes = {
        "short": Size(tasks=80, faults=1, executors=4, threads=2),
        "full": Size(tasks=3_000, faults=12, executors=4, threads=4),
    }
    databases = frozenset({"sqlite"})

    def run(self, world: World) -> None:
        # Its users give up after a quarter of a second each time, and the lease stays as it is.
        environment = {"DDT_TORTURE_SQLITE_TIMEOUT": "0.25"}
        world.cluster.start_many(
            world.size.executors, environment=environment, settings={"THREADS": world.size.threads}
        )
        world.load.start(world.size.tasks, rate=40)
        callers = Crowd(world)
        callers.add(world.size.threads, lambda dice: call(world, dice), world.size.tasks // world.size.threads)
        for number in range(world.size.faults):
            writer = LongWriter()
            world.sleep(0.5)
            world.inject(writer)
            # Shorter than they try, and longer (longer than the lease, too): then they are in doubt and try later.
            world.sleep((1.0, 6.0)[number % 2])
            world.heal(writer)
        world.wait_until(lambda: not world.load.is_going_on and not callers.is_going_on, "the load", patience=600)
        callers.finish()
        busy = sum(one.child.output.count("database is locked") for one in world.cluster.executors.values())
        world.fact(f"{busy} lines of the executors' output say: database is locked")
        if world.size.faults > 1 and not busy:
            world.violation("no process ever gave up on the file")

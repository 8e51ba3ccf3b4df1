"""11. Connections exhausted, the disk full, the database read-only for a while."""

from harness.torture.faults.base import Fault
from harness.torture.faults.limits import ConnectionsExhausted
from harness.torture.faults.refusals import DiskFull, ReadOnly, ReadOnlyForUsers, user_without_privileges
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

KINDS: tuple[type[Fault], ...] = (ConnectionsExhausted, DiskFull, ReadOnly, ReadOnlyForUsers)


@register
class Limits(Scenario):
    name = "limits"
    number = 11
    title = "connections exhausted, disk full, database read-only for a while"
    sizes = {
        "short": Size(tasks=100, faults=1, executors=2, threads=2, extra=12),
        "full": Size(tasks=6_000, faults=8, executors=3, threads=4, extra=50),
    }
    databases = EVERYWHERE - {"galera"}

    def run(self, world: World) -> None:
        url = None
        if world.database.kind == "mariadb":
            url = user_without_privileges(world.database.url)
        world.cluster.start_many(world.size.executors, url=url, settings={"THREADS": world.size.threads})
        world.load.start(world.size.tasks, rate=world.size.extra)
        faults = [kind() for kind in KINDS if world.database.kind in kind.databases]
        for _ in range(world.size.faults):
            for fault in faults:
                self._suffer(world, fault)
        world.wait_until(lambda: not world.load.is_going_on, "the load", patience=600)

    @staticmethod
    def _suffer(world: World, fault: Fault) -> None:
        world.wait_until(lambda: world.inject(fault), f"a database that lets this fault be injected: {fault.kind}")
        world.sleep(fault.lasts if world.size.faults > 1 else fault.lasts / 2)
        world.heal(fault)
        world.sleep(1.0)
        if isinstance(fault, ConnectionsExhausted) and not fault.refusals:
            world.violation("no connection was refused")

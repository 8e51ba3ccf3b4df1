"""The heartbeat's connection gets no answer; the process lives and keeps working."""

from harness.torture.cluster import Executor
from harness.torture.faults.network import BlockedHeartbeat
from harness.torture.looking import incarnation, is_declared_dead, newest_live, runs_of
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

LEASE = 1.5


@register
class Heartbeats(Scenario):
    name = "heartbeats"
    number = 4
    title = "the heartbeat's connection is blocked while the process lives"
    sizes = {"short": Size(tasks=1000, faults=1, executors=2), "full": Size(tasks=5000, faults=25, executors=3)}
    settings = {"LEASE": LEASE, "HEARTBEAT": 0.4}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors - 1)
        url = world.proxy.url if world.database.has_server else None
        struck = world.cluster.start("struck", url=url).wait_until_ready()
        world.load.start(world.size.tasks, rate=40)
        for _ in range(world.size.faults):
            block(world, struck)
        world.load.finish()


def block(world: World, executor: Executor) -> None:
    """Block its heartbeat until it is declared dead; then it must register again, and work."""
    fault = BlockedHeartbeat()
    world.wait_until(lambda: runs_of(newest_live(executor.name)), "it to work")
    before = incarnation(executor.name)
    fault.block(world, executor)
    world.wait_until(lambda: is_declared_dead(before), "others to declare it dead")
    world.sleep(0.5)
    fault.heal(world)
    world.count(fault.kind)
    world.wait_until(lambda: runs_of(newest_live(executor.name)), "it to continue under a new id")
    if not executor.is_alive:
        world.violation(f"{executor.name} ended because its heartbeat was blocked")

"""Handlers that leave their thread in disorder, and that fork."""

from harness.torture.codes import MISUSING
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World


@register
class Misuse(Scenario):
    name = "misuse"
    number = 21
    title = "handlers leave transactions and wrappers behind, and fork; other runs notice nothing"
    sizes = {"short": Size(tasks=120, executors=1, threads=2), "full": Size(tasks=4000, executors=2)}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors, settings={"THREADS": world.size.threads})
        world.load.codes = ("t-plain", "t-atomic", *MISUSING)
        world.load.longest = 0.02
        world.load.start(world.size.tasks, rate=60)
        world.wait_until(lambda: world.load.wait() or world.has_found_bug, "the load to be made")

"""No fault at all: the load alone. What fails here is wrong with the harness."""

from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World


@register
class Calm(Scenario):
    name = "calm"
    title = "the mixed load without any fault"
    sizes = {"short": Size(tasks=150, executors=2), "full": Size(tasks=2000, executors=3)}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors)
        world.load.start(world.size.tasks, rate=100)
        world.wait_until(lambda: not world.load.is_going_on, "the load", patience=600)

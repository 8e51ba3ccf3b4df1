"""The server has committed, and the client does not learn it."""

from django.db import connections

from harness.torture.scenario import SERVERS, Scenario, Size, register
from harness.torture.world import World

KIND = "answer of a COMMIT lost"


@register
class LostCommits(Scenario):
    name = "lost-commits"
    number = 3
    title = "the connection is cut after the server has committed, before it says so"
    sizes = {"short": Size(tasks=150, faults=15, executors=2), "full": Size(tasks=5000, faults=400, executors=3)}
    databases = SERVERS - {"galera"}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors, url=world.proxy.url)
        with_driver_behind_proxy(world, True)
        try:
            world.load.start(world.size.tasks, rate=60)
            lose_all(world)
            world.load.finish()
        finally:
            world.proxy.lose_none()
            with_driver_behind_proxy(world, False)


def lose_all(world: World) -> None:
    """Lose them one after the other; about a quarter of all COMMITs in a busy time."""
    proxy = world.proxy
    while proxy.lost < world.size.faults:
        counted = proxy.lost
        proxy.lose_next()
        world.wait_until(lambda seen=counted: proxy.lost > seen, "a COMMIT whose answer can be lost")  # type: ignore[misc]
        world.count(KIND)
        world.sleep(world.random.uniform(0.0, 0.1))


def with_driver_behind_proxy(world: World, is_behind: bool) -> None:
    """New connections of the driver go through the proxy (or no longer): its load, and the reader of the ledger."""
    port = world.proxy.url if is_behind else world.database.url
    connections.settings["default"]["PORT"] = port.rpartition(":")[2].partition("/")[0]
    connections["default"].close()

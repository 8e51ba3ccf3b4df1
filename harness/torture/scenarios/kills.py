"""SIGKILL of executors in mid-handler, hundreds of times; of the supervisor, too."""

from harness.torture.faults.processes import KillBeforeSettle, KillSupervisor, kill, workers_of
from harness.torture.looking import in_mid_handler
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

IN_MID_HANDLER = "executor killed in mid-handler (SIGKILL)"
LIKELY_LONG = ("t-atomic", "t-slow", "t-slow", "t-again", "t-atomic-again")


@register
class Kills(Scenario):
    name = "kills"
    number = 1
    title = "SIGKILL of executors in mid-handler, hundreds of times; the supervisor's too"
    sizes = {
        "short": Size(tasks=120, faults=6, executors=2, extra=3),
        "full": Size(tasks=20_000, faults=300, executors=3, extra=20),
    }
    """``extra``: the number of kills after which the supervisor is killed, each time."""

    def run(self, world: World) -> None:
        world.load.codes = LIKELY_LONG
        world.cluster.start_many(world.size.executors)
        world.cluster.start("team", "--processes=2").wait_until_ready()
        kill_after_effects(world)
        world.load.start(world.size.tasks, rate=40)
        supervisor, kills = KillSupervisor(), 0
        while kills < world.size.faults:
            kills += kill_one(world)
            if kills % world.size.extra == 0:
                world.inject(supervisor)
        world.load.finish()


def kill_after_effects(world: World) -> None:
    """While there are none but atomic tasks: effects that were committed before the settlement stay behind."""
    fault = KillBeforeSettle()
    for number, executor in enumerate(world.cluster.living()[: world.size.executors]):
        for one in range(8):
            world.caller.add("t-atomic", f"after{number}-{one}", data={"seconds": 0.02})
        if not executor.is_supervisor and fault.pause(world, executor, patience=10.0):
            world.count(fault.kind)


def kill_one(world: World) -> bool:
    """Wait for an executor that is in mid-handler, and kill it there."""

    def struck() -> int:
        pids = [pid for one in world.cluster.living() for pid in workers_of(one)]
        world.random.shuffle(pids)
        return next((pid for pid in pids if in_mid_handler(pid)), 0)

    pid = world.wait_until(struck, "an executor in mid-handler")
    try:
        kill(world, pid)
    except ProcessLookupError:  # it has ended meanwhile, with its supervisor
        return False
    world.count(IN_MID_HANDLER)
    return True

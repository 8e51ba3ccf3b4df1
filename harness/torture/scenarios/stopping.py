"""16. A task is cancelled during its run, and wanted again before the run has ended, in every way there is."""

from datetime import timedelta

from django_delayed_tasks.states import TaskStatus
from harness.torture import hooks
from harness.torture.calls import When
from harness.torture.cluster import Executor
from harness.torture.load import AGAIN
from harness.torture.looking import count
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.texts import text_of
from harness.torture.world import World

WAYS = (*AGAIN, "reschedule")
SOON = timedelta(seconds=0.2)


@register
class Stopping(Scenario):
    name = "stopping"
    number = 16
    title = "cancelled during the run, then added in every mode, or rescheduled: it runs again"
    sizes = {"short": Size(tasks=0, threads=16, extra=1), "full": Size(tasks=0, threads=16, extra=30)}
    """``extra``: rounds."""
    settings = {"LEASE": 60}
    databases = EVERYWHERE

    def run(self, world: World) -> None:
        executor = world.cluster.start("one", settings={"THREADS": world.size.threads}).wait_until_ready()
        wanted = sum(one_round(world, executor, number) for number in range(world.size.extra))
        world.fact(f"{wanted} tasks that were being stopped were wanted again")


def one_round(world: World, executor: Executor, number: int) -> int:
    """Cancel a run of each way and want it again; how many runs there were."""
    codes = ["t-gated", "t-atomic-gated"] if world.database.has_server else ["t-gated"]
    identities = [(code, f"{number}-{way}-{text_of(number + at)}") for code in codes for at, way in enumerate(WAYS)]
    for identity in identities:
        world.caller.add(*identity)
    world.wait_until(lambda: count(TaskStatus.RUNNING) == len(identities), "all to run")
    for (code, num), way in zip(identities, WAYS * len(codes), strict=True):
        if (found := world.caller.cancel(code, num).result) != "stopping":
            world.violation(f"{code} {num}: {found}, not stopping")
        want_again(world, code, num, way, world.random.choice((None, SOON)))
    gate = hooks.flag(world.folder, hooks.GATE, "all")
    gate.touch()
    world.drain()
    gate.unlink()
    return len(identities)


def want_again(world: World, code: str, num: str, way: str, when: When) -> None:
    if way == "reschedule":
        world.caller.reschedule(code, num, when)
    else:
        world.caller.add(code, num, when, if_exists=way)

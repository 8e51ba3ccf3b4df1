"""The database goes away, whole or connection by connection, and comes back."""

from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import TaskStatus
from harness.torture.faults.servers import BackendsKilled, Outage
from harness.torture.looking import count
from harness.torture.models import Effect
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

AWAY = 1.5
BETWEEN = 2.0
"""Seconds between two times that all backends are killed."""


@register
class Outages(Scenario):
    name = "outages"
    number = 5
    title = "the database is killed and comes back; all backends are killed every two seconds under load"
    sizes = {
        "short": Size(tasks=150, faults=1, executors=2, extra=1),
        "full": Size(tasks=10_000, faults=6, executors=3, extra=45),
    }
    """``faults``: outages; ``extra``: times that all backends are killed."""
    databases = EVERYWHERE - {"galera"}
    # So long that no executor is declared dead while the database is away: what ended meanwhile must not run again.
    settings = {"LEASE": 40, "HEARTBEAT": 1}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors)
        for number in range(world.size.faults):
            end_during_outage(world, number)
        world.load.start(world.size.tasks, rate=40)
        backends = BackendsKilled()
        for _ in range(world.size.extra if world.database.has_server else 0):
            world.sleep(BETWEEN)
            world.inject(backends)
        for _ in range(world.size.faults):
            outage(world)
        world.load.finish()


def outage(world: World) -> None:
    """Make the database unreachable for a while, in the middle of the load."""
    fault = Outage()
    world.inject(fault)
    world.sleep(AWAY)
    world.heal(fault)
    world.sleep(1.0)


def end_during_outage(world: World, number: int) -> None:
    """Let runs end while the database is away: they are settled when it is back, and not run again."""
    together = world.size.executors * world.size.threads // 2
    names = [f"silent{number}-{one}" for one in range(together)]
    for name in names:
        world.caller.add("t-silent", name, data={"seconds": AWAY * 0.7})
    world.wait_until(lambda: count_begun(names) == together, "all runs to begin")
    world.wait_until(lambda: count(TaskStatus.RUNNING) <= together, "the claims to be known")
    before = count_begun(names, "begin")  # one that could not write its effect has begun twice
    outage(world)
    world.wait_until(lambda: ended(names), "what ended during the outage to be settled")
    again = count_begun(names, "begin") - before
    if again:
        world.violation(f"{again} runs that ended during an outage were run again")
    world.fact(f"{together} runs ended during outage {number + 1}; {again} of them were run again")


def count_begun(names: list[str], kind: str = "effect") -> int:
    return Effect.objects.filter(biz_code="t-silent", biz_num__in=names, kind=kind).count()


def ended(names: list[str]) -> bool:
    return TaskRun.objects.filter(biz_code="t-silent", biz_num__in=names).count() >= len(names)

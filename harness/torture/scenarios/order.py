"""22. Order: in one executor, more urgent tasks of each kind overtake a backlog of each other kind."""

from functools import partial

from harness.torture.models import Accepted, Effect
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

PAIRS = (
    ("t-slow", "t-limited"), ("t-slow", "t-keyed"), ("t-keyed", "t-slow"), ("t-keyed", "t-limited"),
)  # fmt: skip
"""Two codes each: that of the backlog, and that of the more urgent tasks."""
RUN = 0.01
"""Seconds that a run of the backlog takes."""
SECONDS = {"t-slow": RUN, "t-keyed": 10 * RUN}
"""The data with which it takes as long."""
WORK = 0.5
"""Seconds of the threads' work that may start in the time from an add to a start: a tenth is promised, and the machine
is busy with other things too."""


@register
class Order(Scenario):
    """``extra``: how many more urgent tasks are added, one after the other."""

    name = "order"
    number = 22
    title = "more urgent tasks, with limits and without, overtake a backlog of the other kind"
    sizes = {"short": Size(tasks=1_000, executors=1, extra=4), "full": Size(tasks=3_000, executors=1, extra=40)}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors, settings={"THREADS": world.size.threads})
        for backlog, urgent in PAIRS:
            self._overtake(world, backlog, urgent)

    def _overtake(self, world: World, backlog: str, urgent: str) -> None:
        name = f"{backlog}-{urgent}"
        identities = [(backlog, f"{name}-{number}") for number in range(world.size.tasks)]
        world.caller.add_many(identities, data={"seconds": SECONDS[backlog]})
        started = Effect.objects.filter(kind="begin", biz_code=backlog, biz_num__startswith=name)
        world.wait_until(partial(started.count), "the backlog is worked on")
        added = []
        for number in range(world.size.extra):
            added.append(world.caller.add(urgent, f"{name}-urgent-{number}", priority=10))
            world.sleep(0.05)
        world.drain()
        passed = [self._passed(one, backlog, name) for one in added]
        world.fact(f"{urgent} over {backlog}: {max(passed)} of the backlog started before one of them")
        for one, count in zip(added, passed, strict=True):
            if count > WORK / RUN * world.size.threads:
                world.violation(f"{count} of {backlog} started before {one.biz_code} {one.biz_num}, of priority 10")

    def _passed(self, added: Accepted, backlog: str, name: str) -> int:
        """Return how many of the backlog started between an add and the start of its task."""
        begun = Effect.objects.filter(kind="begin", biz_code=added.biz_code, biz_num=added.biz_num).latest("-at")
        before = Effect.objects.filter(kind="begin", biz_code=backlog, biz_num__startswith=name)
        return before.filter(at__gte=added.at, at__lt=begun.at).count()

"""8. Fifty threads add, cancel and reschedule one running identity in all modes: the last accepted call wins."""

import random
from datetime import timedelta

from django_delayed_tasks.models import Task
from harness.torture.crowd import Crowd
from harness.torture.models import Accepted
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

IDENTITY = "t-slow", "the one"
SECONDS = 0.15
"""The length of each run: most calls come during one."""


@register
class OneIdentity(Scenario):
    name = "one-identity"
    number = 8
    title = "50 threads add, cancel and reschedule one running identity in all modes"
    sizes = {
        "short": Size(tasks=150, executors=2, threads=50),
        "full": Size(tasks=5_000, executors=3, threads=50),
    }
    databases = EVERYWHERE - {"galera"}

    def run(self, world: World) -> None:
        world.caller.add(*IDENTITY, data={"seconds": SECONDS})
        world.cluster.start_many(world.size.executors)
        crowd = Crowd(world)
        crowd.add(world.size.threads, lambda dice: call(world, dice), world.size.tasks // world.size.threads)
        while crowd.is_going_on:
            world.sleep(0.1)
            if (rows := Task.objects.filter(biz_code=IDENTITY[0], biz_num=IDENTITY[1]).count()) > 1:
                world.violation(f"{rows} rows of one identity")
        crowd.finish()
        # And once more from a rest, where it is known which call is the last.
        self._last_word(world)
        deferred = Accepted.objects.filter(result="deferred").count()
        world.fact(f"{deferred} schedules were accepted during a run")

    def _last_word(self, world: World) -> None:
        world.caller.add(*IDENTITY, data={"seconds": SECONDS})
        world.caller.cancel(*IDENTITY)
        world.drain()
        if Task.objects.filter(biz_code=IDENTITY[0], biz_num=IDENTITY[1]).exists():
            world.violation("the identity is there after it was cancelled")
        world.caller.add(*IDENTITY, data={"seconds": SECONDS})


def call(world: World, dice: random.Random) -> None:
    """Make one call, in any mode; each call is in the ledger with its result."""
    when = None if dice.random() < 0.6 else timedelta(seconds=dice.uniform(0, 0.3))
    match dice.choices(("add", "keep", "raise", "cancel", "reschedule"), (5, 2, 2, 3, 4))[0]:
        case "cancel":
            world.caller.cancel(*IDENTITY)
        case "reschedule":
            world.caller.reschedule(*IDENTITY, when)
        case "add":
            world.caller.add(*IDENTITY, when, {"seconds": SECONDS})
        case mode:
            world.caller.add(*IDENTITY, when, {"seconds": SECONDS}, if_exists=mode)

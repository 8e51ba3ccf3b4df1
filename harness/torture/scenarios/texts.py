"""17. Identities, data, results and errors in all kinds of characters: nothing is mangled, merged, or missed."""

from datetime import timedelta

from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from harness.torture.codes import FOREIGN
from harness.torture.looking import count
from harness.torture.models import Accepted
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.texts import TEXTS
from harness.torture.world import World

CODES = ("t-plain", "t-failing", "t-keyed", "t-atomic-flaky", "t-retrying", FOREIGN)
LATER = timedelta(hours=1)
FAILURES = 2
"""Attempts that do not succeed, of the codes that have such."""


@register
class Texts(Scenario):
    name = "texts"
    number = 17
    title = "emoji, CJK and combining characters in identities, data, results and tracebacks; one by one and in bulk"
    sizes = {"short": Size(tasks=0, executors=1, extra=1), "full": Size(tasks=0, executors=2, extra=10)}
    """``extra``: rounds."""
    databases = EVERYWHERE

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors)
        for number in range(world.size.extra):
            one_round(world, f"{number}")
        failed, retried = count(TaskStatus.FAILED), TaskRun.objects.filter(outcome=RunOutcome.RETRIED).count()
        if failed != world.size.extra * len(TEXTS):
            world.violation(f"{failed} tasks are FAILED, each with its text")
        world.fact(f"{len(TEXTS)} texts; {failed} failed and {retried} retried with them in their errors")


def one_round(world: World, name: str) -> None:
    """Add each text with each code; then cancel what has not run, and add again what was done once."""
    nums = [f"{name}-{text}" for text in TEXTS]
    for code in CODES:
        world.caller.add_many([(code, num) for num in nums], data={"fail": FAILURES})
    world.caller.add_many([("t-plain", f"{num}-later") for num in nums], LATER)
    for num in nums:
        world.caller.add("t-plain", f"{num}-once", if_exists="once")
        expect(world.caller.add("t-plain", f"{num}-later", LATER, if_exists="keep"), "kept", world)
        expect(world.caller.reschedule("t-plain", f"{num}-later", 2 * LATER), "moved", world)
        expect(world.caller.cancel("t-plain", f"{num}-later"), "cancelled", world)
    world.drain()
    for num in nums:
        expect(world.caller.add("t-plain", f"{num}-once", if_exists="once"), "filtered", world)


def expect(call: Accepted, result: str, world: World) -> None:
    if call.result != result:
        world.violation(f"{call.verb} of {call.biz_code} {call.biz_num!a}: {call.result}, not {result}")

"""SIGTERM to an executor whose local queue is full."""

import signal

from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from harness.torture.calls import database_now
from harness.torture.cluster import Executor
from harness.torture.looking import count, held, newest_live, pending_due
from harness.torture.models import Effect
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

KIND = "executor with a full local queue told to end (SIGTERM)"
RUNS = 1.5
"""The seconds of a run that is in progress when the signal comes."""


@register
class Sigterm(Scenario):
    name = "sigterm"
    number = 13
    title = "SIGTERM with a full local queue: all that has not started is given back at once"
    sizes = {"short": Size(tasks=60, faults=1, threads=2), "full": Size(tasks=80, faults=20, threads=2)}
    settings = {"THREADS": 2, "LEASE": 60, "HEARTBEAT": 1}

    def run(self, world: World) -> None:
        for number in range(world.size.faults):
            one_round(world, number)


def one_round(world: World, number: int) -> None:
    """Fill, tell it to end, look at what is left, and let another executor have it."""
    leaving = world.cluster.start("leaving", keep=False).wait_until_ready()
    own = newest_live("leaving")
    fill(world, leaving, number)
    leaving.send(signal.SIGTERM)
    world.wait_until(lambda: held(leaving.pid) <= world.size.threads, "the local queue to be given back", patience=20)
    given_back, moment = pending_due(), database_now()
    if leaving.child.exit_code() != 0:
        world.violation(f"it ended with {leaving.child.process.returncode}:\n{leaving.child.output[-800:]}")
    world.count(KIND)
    judge(world, own, moment)
    world.fact(f"round {number + 1}: {given_back} tasks given back, claimable at once")
    world.cluster.start("staying", keep=False).wait_until_ready()
    world.drain()
    world.cluster.executors["staying"].send(signal.SIGTERM)
    world.cluster.executors["staying"].child.exit_code()


def fill(world: World, executor: Executor, number: int) -> None:
    """Quick tasks first, so that it claims ahead; then slow ones, which wait in its queue."""
    for one in range(world.size.tasks):
        world.caller.add("t-plain", f"quick{number}-{one}")
    for one in range(world.size.tasks):
        world.caller.add("t-slow", f"slow{number}-{one}", data={"seconds": RUNS if one < 4 else 0.02})
    world.wait_until(lambda: held(executor.pid) > 2 * world.size.threads, "a full local queue")


def judge(world: World, own: int, moment: object) -> None:
    """Check that nothing was started any more, left claimed, or counted as lost or failed."""
    late = Effect.objects.filter(executor=own, kind="begin", at__gt=moment).count()
    lost = TaskRun.objects.filter(executor=own, outcome__in=(RunOutcome.LOST, RunOutcome.FAILED)).count()
    if late:
        world.violation(f"{late} runs were started after the queue had been given back")
    if lost:
        world.violation(f"{lost} runs were recorded as lost or failed")
    if left := count(TaskStatus.RUNNING, executor=own):
        world.violation(f"{left} tasks are still claimed by the executor that has ended")

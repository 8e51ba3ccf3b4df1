"""SIGTERM to an executor whose local queue is full."""

import signal

from django_delayed_tasks import api
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from harness.torture import hooks
from harness.torture.calls import database_now
from harness.torture.looking import count, held, newest_live, pending_due
from harness.torture.models import Effect
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

KIND = "executor with a full local queue told to end (SIGTERM)"


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
    fill(world, number)
    told = Effect.objects.filter(process=leaving.pid, kind="begin", biz_code="t-leaving")
    world.wait_until(lambda: told.count() == world.size.threads, "all threads to be in a run")
    world.wait_until(lambda: held(leaving.pid) <= world.size.threads, "the local queue to be given back", patience=20)
    given_back, moment = pending_due(), database_now()
    leaving.ask(hooks.GATE)
    if leaving.child.exit_code() != 0:
        world.violation(f"it ended with {leaving.child.process.returncode}:\n{leaving.child.output[-800:]}")
    hooks.flag(world.folder, hooks.GATE, leaving.name).unlink()
    world.count(KIND)
    judge(world, own, moment)
    world.fact(f"round {number + 1}: {given_back} tasks given back, claimable at once")
    world.cluster.start("staying", keep=False).wait_until_ready()
    world.drain()
    world.cluster.executors["staying"].send(signal.SIGTERM)
    world.cluster.executors["staying"].child.exit_code()


def fill(world: World, number: int) -> None:
    """Add quick tasks, so that the executor claims ahead, then those that tell it to end, then those that wait.

    It gets all of them at once: added one by one, they could be run as fast as they are added. And it is told to end
    by a run, when all threads are in one: the queue that it has then is given back after a second without a start.
    """
    api.pause_queue("default")
    for code, tasks in (("t-plain", world.size.tasks), ("t-leaving", world.size.threads), ("t-slow", world.size.tasks)):
        world.caller.add_many([(code, f"{number}-{one}") for one in range(tasks)], data={"seconds": 0.02})
    api.resume_queue("default")


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

"""Handlers that end their process, and handlers that hang."""

from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from harness.torture.looking import count
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

MAX_RESCUES = 3
EXITED = "handler ended its process (os._exit)"
HUNG = "handler hung past its timeout"


@register
class Deadly(Scenario):
    name = "deadly"
    number = 10
    title = "a handler that calls os._exit ends FAILED, others unharmed; a handler that hangs loses its task"
    sizes = {
        "short": Size(tasks=80, faults=1, executors=2, extra=3),
        "full": Size(tasks=2000, faults=6, executors=3, extra=40),
    }
    """``faults``: tasks that kill, one after the other; ``extra``: tasks that hang."""
    settings = {"MAX_RESCUES": MAX_RESCUES, "MAX_LOST_THREADS": 6}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors)
        # Short runs: a task that runs next to the same deadly task at each of its deaths is taken for deadly as well.
        world.load.longest = 0.05
        world.load.start(world.size.tasks, rate=40)
        for number in range(world.size.faults):
            kill_by(world, f"deadly{number}")
        for number in range(world.size.extra):
            world.caller.add("t-hanging", f"hang{number}", data={"hang": 1})
        world.wait_until(lambda: timed_out() >= world.size.extra, "every hanging run to be given up")
        world.count(HUNG, timed_out())
        world.load.finish()


def kill_by(world: World, name: str) -> None:
    """Run a deadly task until it is FAILED, with as many rescues as are allowed."""
    world.caller.add("t-deadly", name)
    world.wait_until(lambda: count(TaskStatus.FAILED, biz_num=name), f"{name} to be FAILED", patience=120)
    rescues = Task.objects.get(biz_num=name).rescues
    deaths = TaskRun.objects.filter(biz_num=name, outcome=RunOutcome.LOST).count()
    world.count(EXITED, deaths)
    if rescues != MAX_RESCUES:
        world.violation(f"{name} was rescued {rescues} times; {MAX_RESCUES} are allowed")


def timed_out() -> int:
    """Runs that were given up."""
    return TaskRun.objects.filter(biz_code="t-hanging", error__contains="TaskTimeout").count()

"""Executors that stand still past their lease and then continue as if nothing had happened."""

import signal
from datetime import UTC, datetime, timedelta

from django_delayed_tasks.executor.settling.settler import LOST
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from harness.torture import hooks
from harness.torture.calls import database_now
from harness.torture.cluster import Executor
from harness.torture.faults.processes import PauseAt, PauseBeforeClaim, PauseBeforeSettle
from harness.torture.looking import incarnation, is_declared_dead, newest_live
from harness.torture.models import Effect
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

MID_HANDLER = "executor stopped in mid-handler past its lease (SIGSTOP)"
LEASE = 2.5
REFUSED = f" {LOST} "
"""What an executor says whose settlement came too late."""
LONE = "lone"
"""An executor, and the queue that no other one serves: what it has read to claim stays where it is."""


@register
class Zombies(Scenario):
    name = "zombies"
    number = 2
    title = "SIGSTOP past the lease, reap, rerun, SIGCONT; also between SELECT and claim, and before the settlement"
    sizes = {"short": Size(tasks=1000, faults=1, executors=3), "full": Size(tasks=5000, faults=20, executors=4)}
    settings = {"LEASE": LEASE, "HEARTBEAT": 0.6, "CLAIM": "compare_and_set"}

    def run(self, world: World) -> None:
        executors = world.cluster.start_many(world.size.executors, "--exclude-queues", LONE)
        lone = world.cluster.start(LONE, "--queues", LONE).wait_until_ready()
        world.load.start(world.size.tasks, rate=40)
        for number in range(world.size.faults):
            executor = executors[number % len(executors)]
            stop_before_claim(world, lone, f"{number}a", past_lease=False)
            stop_before_claim(world, lone, f"{number}b", past_lease=True)
            stop_in_mid_handler(world, lone, number)
            if world.database.has_server:
                stop_at(world, PauseBeforeSettle(), executor)
        world.load.finish()


def stop_in_mid_handler(world: World, lone: Executor, number: int) -> None:
    """Continue the executor while its heir runs the same tasks: what it settles comes too early."""
    names = [f"gated{number}-{one}" for one in range(world.size.threads // 2)]
    for name in names:
        world.caller.add("t-gated", name, queue=LONE)
        if world.database.has_server:  # on SQLite, a long transaction would be the only one
            world.caller.add("t-atomic-gated", name, queue=LONE)
    claims = world.wait_until(lambda: begun_by(lone.pid, names), "a run to stop in its middle")
    told = lone.child.output.count(REFUSED)
    lone.send(signal.SIGSTOP)
    world.tally.died(lone.pid, datetime.now(UTC))
    heir = world.cluster.start("heir", "--queues", LONE, keep=False)
    if world.try_until(lambda: is_run_again(claims), patience_of(world)):
        world.count(MID_HANDLER)
    lone.ask(hooks.GATE)
    lone.send(signal.SIGCONT)
    world.try_until(lambda: has_been_settled(lone, claims, told), patience=10.0)
    everybody = hooks.flag(world.folder, hooks.GATE, "all")
    everybody.touch()
    world.wait_until(lambda: not Task.objects.filter(biz_num__in=names).exists(), "the gated runs to end")
    for gate in (everybody, hooks.flag(world.folder, hooks.GATE, lone.name)):
        gate.unlink(missing_ok=True)
    heir.send(signal.SIGTERM)
    if heir.child.exit_code() != 0:
        world.violation(f"heir ended with {heir.child.process.returncode}")


def begun_by(pid: int, names: list[str]) -> dict[int, int]:
    """Task and version of the runs that this process has begun, and holds."""
    begun = Effect.objects.filter(process=pid, kind="begin", biz_num__in=names).values_list("task_id", "version")
    running = set(Task.objects.filter(status=TaskStatus.RUNNING).values_list("id", "version"))
    return dict(running & set(begun))


def is_run_again(claims: dict[int, int]) -> bool:
    """Whether one of these has begun under a later claim."""
    begun = Effect.objects.filter(kind="begin", task_id__in=claims).values_list("task_id", "version")
    return any(version > claims[task_id] for task_id, version in begun)


def has_been_settled(zombie: Executor, claims: dict[int, int], told: int = 0) -> bool:
    """Whether the zombie has been told (once more) that its claims are gone; or, as must not be, a task is."""
    return zombie.child.output.count(REFUSED) > told or Task.objects.filter(id__in=claims).count() < len(claims)


def stop_before_claim(world: World, lone: Executor, number: str, past_lease: bool) -> None:
    """Stop it before a claim, and replace or cancel the rows that it has read: none may run as it was read."""
    fault = PauseBeforeClaim()
    names = [f"hot{number}-{one}" for one in range(12)]
    world.wait_until(lambda: newest_live(lone.name), "a lease to lose")
    if not fault.pause(world, lone, patience=30.0, lure=lambda: add_all(world, names)):
        return
    for one, name in enumerate(names):
        if past_lease and one % 3 == 0:
            world.caller.cancel("t-plain", name)
        else:
            world.caller.add("t-plain", name, queue=LONE)
    if past_lease:
        outlast_lease(world, lone)
    fault.heal(world)
    world.count(fault.kind + (", past its lease" if past_lease else ""))


def stop_at(world: World, fault: PauseAt, executor: Executor) -> None:
    """Stop the executor at that place until its lease has run out."""
    if stop_at_place(world, fault, executor):
        outlast_lease(world, executor)
        fault.heal(world)
        world.count(fault.kind)


def stop_at_place(world: World, fault: PauseAt, executor: Executor) -> bool:
    """Whether it came there; it must be alive and have its lease, or it would not."""
    world.wait_until(lambda: newest_live(executor.name), "a lease to lose")
    return fault.pause(world, executor, patience=10.0)


def outlast_lease(world: World, executor: Executor) -> None:
    """Wait until it is declared dead and what it had claimed has begun elsewhere, or was taken away.

    On SQLite it may have been stopped while it was writing: then no other process can write until it continues.
    """
    dead = incarnation(executor.name)
    world.try_until(lambda: is_declared_dead(dead), patience_of(world))
    world.sleep(0.5)


def patience_of(world: World) -> float:
    """Seconds to wait for others to take over."""
    return 60.0 if world.database.has_server else 4 * LEASE


def add_all(world: World, names: list[str]) -> None:
    """Add all tasks for the same moment, so that they are read together."""
    moment = database_now() + timedelta(seconds=1.5)
    for name in names:
        world.caller.add("t-plain", name, moment, queue=LONE)

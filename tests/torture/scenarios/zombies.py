"""Executors that stand still past their lease and then go on as if nothing had happened."""

import signal
from datetime import UTC, datetime

from tests.torture.cluster import Executor
from tests.torture.faults.processes import PauseAt, PauseBeforeClaim, PauseBeforeSettle
from tests.torture.looking import in_mid_handler, incarnation, is_declared_dead
from tests.torture.scenario import Scenario, Size, register
from tests.torture.world import World

MID_HANDLER = "executor stopped in mid-handler past its lease (SIGSTOP)"
LEASE = 1.5


@register
class Zombies(Scenario):
    name = "zombies"
    number = 2
    title = "SIGSTOP past the lease, reap, rerun, SIGCONT; also between SELECT and claim, and before the settlement"
    sizes = {"short": Size(tasks=1000, faults=1, executors=3), "full": Size(tasks=5000, faults=20, executors=4)}
    settings = {"LEASE": LEASE, "HEARTBEAT": 0.4, "CLAIM": "compare_and_set"}

    def run(self, world: World) -> None:
        executors = world.cluster.start_many(world.size.executors)
        world.load.start(world.size.tasks, rate=40)
        for number in range(world.size.faults):
            executor = executors[number % len(executors)]
            stop_in_mid_handler(world, executor)
            stop_before_claim(world, executor)
            if world.database.has_server:
                stop_at(world, PauseBeforeSettle(), executor)
        world.load.finish()


def stop_in_mid_handler(world: World, executor: Executor) -> None:
    """Until others have run what it was at."""
    world.wait_until(lambda: in_mid_handler(executor.pid), "a run to stop in its middle")
    executor.send(signal.SIGSTOP)
    world.tally.died(executor.pid, datetime.now(UTC))
    outlast_lease(world, executor)
    executor.send(signal.SIGCONT)
    world.count(MID_HANDLER)


def stop_before_claim(world: World, executor: Executor) -> None:
    """What it has read to claim is rescheduled, or cancelled, meanwhile: none of it may run as it was read."""
    fault = PauseBeforeClaim()
    names = [f"hot{executor.name}-{number}" for number in range(12)]
    add_all(world, names)
    if not stop_at_place(world, fault, executor):
        return
    for number, name in enumerate(names):
        if number % 3 == 0:
            world.caller.cancel("t-plain", name)
        else:
            world.caller.add("t-plain", name)
    outlast_lease(world, executor)
    fault.heal(world)
    world.count(fault.kind)


def stop_at(world: World, fault: PauseAt, executor: Executor) -> None:
    """There, past the lease."""
    if stop_at_place(world, fault, executor):
        outlast_lease(world, executor)
        fault.heal(world)
        world.count(fault.kind)


def stop_at_place(world: World, fault: PauseAt, executor: Executor) -> bool:
    """Whether it came there; it must be alive and have its lease, or it would not."""
    world.wait_until(lambda: not is_declared_dead(incarnation(executor.name)), "a lease to lose")
    return fault.pause(world, executor, patience=10.0)


def outlast_lease(world: World, executor: Executor) -> None:
    """Until it is declared dead and what it had claimed has begun elsewhere, or was taken away.

    On SQLite it may have been stopped while it was writing: then nobody else can, until it goes on.
    """
    dead = incarnation(executor.name)
    patience = 60.0 if world.database.has_server else 4 * LEASE
    world.try_until(lambda: is_declared_dead(dead), patience)
    world.sleep(0.5)


def add_all(world: World, names: list[str]) -> None:
    for name in names:
        world.caller.add("t-plain", name)

"""Short and without dice: for each bug that can be put into the executors, what must bring it to light."""

import random
import signal
from datetime import UTC, datetime

from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome
from harness.torture import hooks
from harness.torture.cluster import Executor
from harness.torture.faults.failovers import Failover
from harness.torture.faults.limits import ConnectionsExhausted
from harness.torture.faults.processes import Deploy, KillBeforeSettle, KillDuringStop
from harness.torture.faults.writers import LongWriter, NoWrites
from harness.torture.looking import in_mid_handler, leases_are_over, newest_live
from harness.torture.scenario import Scenario, Size, register
from harness.torture.scenarios.zombies import begun_by, has_been_settled, is_run_again, stop_before_claim
from harness.torture.world import World

ONE = {"short": Size(tasks=1, executors=2), "full": Size(tasks=1, executors=2)}
SHORT_LEASE = {"LEASE": 1.5, "HEARTBEAT": 0.5, "CLAIM": "compare_and_set"}
LONG_LEASE = {**SHORT_LEASE, "LEASE": 60}
"""For proofs in which no executor is to be declared dead, however busy the machine is."""


class Proof(Scenario):
    """Number 0: no scenario of its own, but a part of one."""

    sizes = ONE
    settings = SHORT_LEASE


@register
class Fence(Proof):
    name = "proof-fence"
    title = "a zombie ends its run while another is in the middle of the same task"

    def run(self, world: World) -> None:
        zombie = world.cluster.start("zombie").wait_until_ready()
        world.caller.add("t-gated", "one")
        claims = world.wait_until(lambda: begun_by(zombie.pid, ["one"]), "the run to begin")
        zombie.send(signal.SIGSTOP)
        world.tally.died(zombie.pid, datetime.now(UTC))
        world.cluster.start("other").wait_until_ready()
        world.wait_until(lambda: is_run_again(claims), "the run to begin again")
        open_gate(world, zombie)
        zombie.send(signal.SIGCONT)
        world.wait_until(lambda: has_been_settled(zombie, claims), "the zombie to settle, or not")
        open_gate(world)


@register
class Deferred(Proof):
    name = "proof-deferred"
    title = "a schedule is accepted while the task runs"
    settings = LONG_LEASE

    def run(self, world: World) -> None:
        executor = world.cluster.start("one").wait_until_ready()
        world.caller.add("t-gated", "one")
        world.wait_until(lambda: in_mid_handler(executor.pid), "the run to begin")
        world.caller.add("t-gated", "one")
        open_gate(world)


@register
class Version(Proof):
    name = "proof-version"
    title = "a schedule is accepted between the SELECT of candidates and the claim"
    settings = LONG_LEASE

    def run(self, world: World) -> None:
        lone = world.cluster.start("lone").wait_until_ready()
        world.wait_until(lambda: newest_live(lone.name), "its lease")
        stop_before_claim(world, lone, "0", past_lease=False)


@register
class Slots(Proof):
    name = "proof-slots"
    title = "more tasks than may run at a time, and threads for all of them"

    def run(self, world: World) -> None:
        for name in ("one", "other"):
            world.cluster.start(name).wait_until_ready()
        for number in range(8):
            world.caller.add("t-limited", f"{number}", data={"seconds": 5.0})


@register
class Atomic(Proof):
    name = "proof-atomic"
    title = "an executor is killed after the effects of an atomic run, before its settlement"

    def run(self, world: World) -> None:
        executor = world.cluster.start("one").wait_until_ready()
        fault = KillBeforeSettle()
        if fault.pause(world, executor, patience=60.0, lure=lambda: add_atomic(world)):
            world.count(fault.kind)
        else:
            world.violation("no atomic run came to its settlement")


@register
class ReadOnlySessions(Proof):
    """What an executor that runs nothing leaves behind is run by another one at the end."""

    name = "proof-failover"
    title = "an executor's sessions stay read-only after a failover"
    databases = Failover.databases

    def run(self, world: World) -> None:
        world.cluster.start("one").wait_until_ready()
        world.caller.add("t-plain", "before")
        world.wait_until(lambda: is_done("before"), "a run before the failover")
        fault = Failover()
        world.inject(fault)
        world.sleep(1.5)
        world.heal(fault)
        world.caller.add("t-plain", "after")
        if not world.try_until(lambda: is_done("after"), 10):
            world.violation("runs_after_failover: nothing was run for ten seconds after a failover")
            world.cluster.start("other").wait_until_ready()


@register
class Famine(Proof):
    name = "proof-famine"
    title = "no connection is free for the threads of an executor"
    databases = ConnectionsExhausted.databases
    settings = LONG_LEASE

    def run(self, world: World) -> None:
        world.cluster.start("one").wait_until_ready()
        fault = TakesTheFree()
        world.inject(fault)
        for number in range(8):
            world.caller.add("t-single", f"{number}")
        world.sleep(2.0)
        world.heal(fault)


class TakesTheFree(ConnectionsExhausted):
    """Ends none: the threads of an executor that has run nothing have yet to connect."""

    kind = "no connection free"

    def _end_connections(self, world: World, chance: random.Random) -> bool:
        return True


@register
class Stop(Proof):
    name = "proof-stop"
    title = "a run outlasts the stop of its executor, and another one is killed during its stop"
    settings = LONG_LEASE

    def run(self, world: World) -> None:
        hasty = world.cluster.start("hasty", settings={"SHUTDOWN_TIMEOUT": 0.1}, keep=False).wait_until_ready()
        world.caller.add("t-gated", "one")
        world.wait_until(lambda: in_mid_handler(hasty.pid), "the run to begin")
        hasty.send(signal.SIGTERM)
        world.wait_until(lambda: not hasty.is_alive, "its end")
        world.count(Deploy.kind)
        killed = world.cluster.start("killed", keep=False).wait_until_ready()
        world.wait_until(lambda: in_mid_handler(killed.pid), "the run to begin again")
        fault = KillDuringStop()
        if fault.kill(killed, patience=60.0):
            world.count(fault.kind)
        open_gate(world)
        world.cluster.start("killed").wait_until_ready()


@register
class WritePause(Proof):
    """One executor reaps as soon as it can write again, before the other one has renewed its lease."""

    name = "proof-pause"
    title = "the database takes no writes for longer than the leases of executors in the middle of runs"
    settings = {**SHORT_LEASE, "LEASE": 9, "HEARTBEAT": 3}

    def run(self, world: World) -> None:
        one, other = [world.cluster.start(name, settings={"THREADS": 1}) for name in ("one", "other")]
        for executor in (one, other):
            executor.wait_until_ready()
            world.caller.add("t-gated", executor.name)
        world.wait_until(lambda: all(in_mid_handler(executor.pid) for executor in (one, other)), "both runs to begin")
        blocked = other.ask(hooks.BLOCK_HEARTBEAT)
        fault = NoWrites() if world.database.has_server else LongWriter()
        world.inject(fault)
        world.wait_until(leases_are_over, "all leases to run out")
        reaps = one.ask(hooks.REAP_AFTER_RENEWAL)
        world.heal(fault)
        world.wait_until(lambda: not reaps.exists(), "one to renew its lease, and to reap")
        blocked.unlink()
        world.wait_until(lambda: newest_live(other.name) and not leases_are_over(), "renewals")
        open_gate(world)


def is_done(num: str) -> bool:
    return TaskRun.objects.filter(biz_num=num, outcome=RunOutcome.DONE).exists()


def add_atomic(world: World) -> None:
    # Where one writer at a time is allowed, a second call would wait for the run that stands before its settlement.
    for number in range(4 if world.database.has_server else 1):
        world.caller.add("t-atomic", f"{number}")


def open_gate(world: World, executor: Executor | None = None) -> None:
    """Open the gate of this executor, or of all."""
    hooks.flag(world.folder, hooks.GATE, executor.name if executor else "all").touch()

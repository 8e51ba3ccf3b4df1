"""What happens to executors as processes: killed, stopped, told to end."""

import os
import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.torture import hooks
from harness.torture.cluster import Executor
from harness.torture.faults.base import Fault, in_mix
from harness.torture.looking import is_stopping
from harness.torture.scenario import EVERYWHERE, SERVERS

if TYPE_CHECKING:
    from harness.torture.world import World


@in_mix
class Kill(Fault):
    """SIGKILL to an executor: one that stands alone, or a supervisor's."""

    kind = "executor killed (SIGKILL)"
    weight = 6.0

    def inject(self, world: "World", chance: random.Random) -> bool:
        pids = [pid for one in world.cluster.living() for pid in workers_of(one)]
        if not pids:
            return False
        kill(world, chance.choice(pids))
        return True


@in_mix
class KillSupervisor(Fault):
    """SIGKILL to a supervisor; its executors hear of it from the kernel, and a new one is started while they end."""

    kind = "supervisor killed (SIGKILL)"
    weight = 0.5

    def inject(self, world: "World", chance: random.Random) -> bool:
        supervisors = [one for one in world.cluster.living() if one.is_supervisor]
        if not supervisors:
            return False
        kill(world, chance.choice(supervisors).pid)
        return True


@in_mix
class Terminate(Fault):
    """SIGTERM: it ends in good order, whatever it is at, and is started again."""

    kind = "executor told to end (SIGTERM)"
    weight = 2.0

    def inject(self, world: "World", chance: random.Random) -> bool:
        executors = world.cluster.living()
        if executors:
            chance.choice(executors).send(signal.SIGTERM)
        return bool(executors)


@in_mix
class Deploy(Fault):
    """SIGTERM to all, as when the next release is started: runs that take longer are cut off, and that is no death."""

    kind = "all executors told to end, as in a deploy (SIGTERM)"
    weight = 1.0

    def inject(self, world: "World", chance: random.Random) -> bool:
        executors = world.cluster.living()
        for executor in executors:
            executor.send(signal.SIGTERM)
        return bool(executors)


@in_mix
class KillDuringStop(Fault):
    """SIGKILL to an executor that is stopping, as by a platform that would not wait: that is no death either."""

    kind = "executor killed during its stop (SIGTERM, SIGKILL)"
    weight = 1.5

    def inject(self, world: "World", chance: random.Random) -> bool:
        executors = [one for one in world.cluster.living() if not one.is_supervisor]
        return bool(executors) and self.kill(chance.choice(executors))

    def kill(self, executor: Executor, patience: float = 1.0) -> bool:
        """Return whether it was killed; else it has ended before, or has yet to say that it stops."""
        executor.send(signal.SIGTERM)
        until = time.monotonic() + patience
        while executor.is_alive and time.monotonic() < until:
            if is_stopping(executor.pid):
                executor.send(signal.SIGKILL)
                return True
            time.sleep(0.005)
        return False


@in_mix
class Pause(Fault):
    """SIGSTOP past the lease, then SIGCONT: a zombie."""

    kind = "executor stopped past its lease (SIGSTOP)"
    weight = 2.0
    lasts = 5.0

    def __init__(self) -> None:
        self.executor: Executor | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        executors = [one for one in world.cluster.living() if not one.is_supervisor]
        if not executors:
            return False
        self.executor = chance.choice(executors)
        self.executor.send(signal.SIGSTOP)
        world.tally.died(self.executor.pid, datetime.now(UTC))
        return True

    def heal(self, world: "World") -> None:
        executor, self.executor = self.executor, None
        if executor and executor.is_alive:
            executor.send(signal.SIGCONT)


class PauseAt(Fault):
    """An executor stops itself at one of the places in ``hooks``, past its lease, and is resumed."""

    lasts = 5.0
    place: str

    def __init__(self) -> None:
        self.executor: Executor | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        executors = [one for one in world.cluster.living() if not one.is_supervisor]
        return bool(executors) and self.pause(world, chance.choice(executors))

    def pause(
        self, world: "World", executor: Executor, patience: float = 2.0, lure: Callable[[], None] = lambda: None
    ) -> bool:
        """Whether it came to that place in time, and stands there now; ``lure()`` is called while it is awaited."""
        wish = executor.ask(self.place)
        lure()
        until = time.monotonic() + patience
        while not executor.has_paused():
            if time.monotonic() > until or not executor.is_alive:
                if not wish.exists() and executor.is_alive:
                    continue  # it is about to
                wish.unlink(missing_ok=True)
                return False
            time.sleep(0.005)
        executor.is_stopped = True
        world.tally.died(executor.pid, datetime.now(UTC))
        self.executor = executor
        return True

    def heal(self, world: "World") -> None:
        executor, self.executor = self.executor, None
        if executor and executor.is_alive:
            executor.send(signal.SIGCONT)


@in_mix
class PauseBeforeClaim(PauseAt):
    """Between the SELECT of candidates and the UPDATE that claims them (where these are two statements)."""

    kind = "executor stopped between SELECT and claim"
    place = hooks.STOP_BEFORE_CLAIM


@in_mix
class PauseBeforeSettle(PauseAt):
    """Stop an executor in an atomic run's transaction, after its effects and before its settlement.

    Not on SQLite, where that transaction would keep every other process from writing.
    """

    kind = "executor stopped between effect and settlement"
    place = hooks.STOP_BEFORE_SETTLE
    databases = SERVERS


@in_mix
class KillBeforeSettle(PauseBeforeSettle):
    """Kill the executor at that place: what the atomic run has done must be undone with it."""

    kind = "executor killed between effect and settlement (SIGKILL)"
    databases = EVERYWHERE
    weight = 2.0
    lasts = 0.0

    def pause(
        self, world: "World", executor: Executor, patience: float = 2.0, lure: Callable[[], None] = lambda: None
    ) -> bool:
        if not super().pause(world, executor, patience, lure):
            return False
        self.executor = None
        kill(world, executor.pid)
        return True


def kill(world: "World", pid: int) -> None:
    """SIGKILL, noted."""
    world.tally.died(pid, datetime.now(UTC))
    os.kill(pid, signal.SIGKILL)


def workers_of(executor: Executor) -> list[int]:
    """The processes that run tasks: it, or its children if it is a supervisor."""
    if not executor.is_supervisor:
        return [executor.pid]
    children = Path(f"/proc/{executor.pid}/task/{executor.pid}/children")
    try:
        return [int(pid) for pid in children.read_text().split()]
    except OSError:
        return []

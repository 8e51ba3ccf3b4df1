"""What happens to connections between executors and the server: answers lost, one of them silent."""

import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.torture import hooks
from harness.torture.cluster import Executor
from harness.torture.faults.base import Fault, in_mix
from harness.torture.scenario import SERVERS

if TYPE_CHECKING:
    from harness.torture.world import World


@in_mix
class LostCommit(Fault):
    """The server has committed; the connection is cut before the answer arrives. Needs executors behind the proxy."""

    kind = "answer of a COMMIT lost"
    databases = SERVERS - {"galera"}
    weight = 4.0

    def inject(self, world: "World", chance: random.Random) -> bool:
        proxy = world.proxy
        before = proxy.lost
        proxy.lose_next()
        until = time.monotonic() + 2.0
        while proxy.lost == before and time.monotonic() < until:
            time.sleep(0.005)
        proxy.lose_none()
        return proxy.lost > before


@in_mix
class BlockedHeartbeat(Fault):
    """The heartbeat gets no answer while everything else works: on servers its connection is silent, on SQLite its
    statement waits."""

    kind = "heartbeat blocked, the process lives"
    weight = 1.0
    lasts = 5.0

    def __init__(self) -> None:
        self._executor: Executor | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        executors = [one for one in world.cluster.living() if not one.is_supervisor]
        return bool(executors) and self.block(world, chance.choice(executors))

    def block(self, world: "World", executor: Executor) -> bool:
        """Block that of this executor; if it is behind the proxy, there (with all others behind it)."""
        self._executor = executor
        if world.database.has_server and executor.url == world.proxy.url:
            world.proxy.silence_heartbeats(True)
        else:
            executor.ask(hooks.BLOCK_HEARTBEAT)
        world.tally.died(executor.pid, datetime.now(UTC))
        return True

    def heal(self, world: "World") -> None:
        executor, self._executor = self._executor, None
        if executor:
            hooks.flag(world.folder, hooks.BLOCK_HEARTBEAT, executor.name).unlink(missing_ok=True)
            if world.database.has_server:
                world.proxy.silence_heartbeats(False)

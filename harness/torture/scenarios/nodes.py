"""A cluster of three nodes that lose each other, with executors attached to different ones."""

import random
import time

from django_delayed_tasks.models import Executor as ExecutorRow
from django_delayed_tasks.models import TaskRun
from harness.torture import galera_driver
from harness.torture.cluster import Executor
from harness.torture.faults.base import Fault
from harness.torture.faults.galera import GALERA, AllKilled, NodeAway, NodeCut, NodeKilled, NodeVanished
from harness.torture.faults.processes import Kill, Pause, PauseBeforeClaim, PauseBeforeSettle, Terminate
from harness.torture.faults.servers import BackendsKilled
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

BETWEEN = (0.3, 1.5)
"""Seconds between two momentary faults."""
AWAY = (6.0, 14.0)
"""Seconds for which a node is away: shorter and longer than the others need to notice it."""
RATE = 30


def attach(world: World, staying: int, failing_over: int) -> list[Executor]:
    """Executors attached to the nodes in turn: some for good, some with all nodes in their list of hosts."""
    urls = world.database.urls
    started = []
    for number in range(staying):
        environment = {"DDT_GALERA_HOSTS": "[]"}
        started.append(world.cluster.start(f"stays{number + 1}", url=urls[number % 3], environment=environment))
    for number in range(failing_over):
        started.append(world.cluster.start(f"moves{number + 1}", url=urls[number % 3]))
    return [executor.wait_until_ready() for executor in started]


@register
class Nodes(Scenario):
    """One node at a time may be away, while executors are killed, stopped and told to end."""

    name = "galera"
    title = "nodes killed, cut off and vanished under load; executors on different nodes killed and stopped"
    databases = GALERA
    settings = {"LEASE": 6, "HEARTBEAT": 1}
    sizes = {"short": Size(tasks=300, faults=2), "full": Size(tasks=1_000_000)}

    def run(self, world: World) -> None:
        galera_driver.fail_over(world.database)
        attach(world, staying=3, failing_over=2)
        world.load.start(world.size.tasks, RATE)
        momentary = [Kill(), Kill(), Kill(), Terminate(), BackendsKilled()]
        lasting: list[Fault] = [NodeKilled(), NodeCut(), NodeVanished()]
        zombies: list[Fault] = [Pause(), PauseBeforeClaim(), PauseBeforeSettle()]
        rounds = 0
        while not self._is_done(world, rounds):
            chosen = lasting[rounds % 3] if rounds % 4 < 3 else world.random.choice([AllKilled(), *zombies, *zombies])
            self._round(world, chosen, momentary, world.random)
            rounds += 1

    def _is_done(self, world: World, rounds: int) -> bool:
        return rounds >= world.size.faults if world.size.faults else world.is_over

    def _round(self, world: World, lasting: Fault, momentary: list[Fault], chance: random.Random) -> None:
        world.sleep(chance.uniform(2, 4))
        until = time.monotonic() + chance.uniform(*AWAY)
        world.inject(lasting)
        while time.monotonic() < until:
            world.sleep(chance.uniform(*BETWEEN))
            if not isinstance(lasting, AllKilled):
                world.inject(chance.choice(momentary))
        world.heal(lasting)


@register
class CutOff(Scenario):
    """A scenario of an executor whose node is not primary any more, step by step."""

    name = "galera-cut"
    title = "an executor whose node is cut off claims nothing until it is back; one with several hosts moves"
    databases = GALERA
    settings = {"LEASE": 6, "HEARTBEAT": 1}
    sizes = {"short": Size(tasks=60), "full": Size(tasks=200)}

    def run(self, world: World) -> None:
        galera_driver.fail_over(world.database)
        stays = self._start(world, "stays", "[]")
        moves = self._start(world, "moves", None)
        for fault in (NodeCut(2), NodeKilled(2), NodeVanished(2)):
            self._go_without(world, fault, stays, moves)

    def _start(self, world: World, name: str, hosts: str | None) -> Executor:
        environment = {} if hosts is None else {"DDT_GALERA_HOSTS": hosts}
        return world.cluster.start(name, url=world.database.urls[1], environment=environment).wait_until_ready()

    def _go_without(self, world: World, fault: NodeAway, stays: Executor, moves: Executor) -> None:
        began = time.monotonic()
        world.inject(fault)
        world.wait_until(lambda: not _is_alive(stays.name), f"{stays.name} is declared dead")
        dead = _newest(stays.name)
        self._run_some(world, f"{fault.kind[:8]}-away")
        world.wait_until(lambda: _is_alive(moves.name), f"{moves.name} has moved")
        world.fact(f"{fault.kind}: all was run without it within {time.monotonic() - began:.1f} s")
        runs = TaskRun.objects.filter(executor=dead, biz_num__contains="-away").count()
        if runs:
            world.violation(f"{stays.name} ran {runs} tasks while its node was away")
        world.heal(fault)
        world.wait_until(lambda: _is_alive(stays.name), f"{stays.name} carries on")
        self._run_some(world, f"{fault.kind[:8]}-back")

    def _run_some(self, world: World, name: str) -> None:
        for number in range(world.size.tasks // 6):
            world.caller.add("t-plain", f"{name}-{number}")
            world.caller.add("t-atomic", f"{name}-{number}")
        world.drain()


def _newest(name: str) -> int:
    return int(ExecutorRow.objects.filter(name=name).order_by("-id").values_list("id", flat=True)[0])


def _is_alive(name: str) -> bool:
    return ExecutorRow.objects.filter(name=name, alive=True).exists()

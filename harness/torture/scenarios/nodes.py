"""A cluster of three nodes that lose each other, with executors attached to different ones."""

import random
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from itertools import cycle, permutations

from django_delayed_tasks import api
from django_delayed_tasks.models import Executor as ExecutorRow
from django_delayed_tasks.models import Task, TaskRun
from harness.servers.nodes import ClusterNode
from harness.servers.patroni import Cluster as ClusterOfPatroni
from harness.torture.clients import Clients
from harness.torture.cluster import Executor
from harness.torture.databases.patroni import Patroni
from harness.torture.faults.base import Fault
from harness.torture.faults.nodes import (
    AllKilled,
    NodeAway,
    NodeCut,
    NodeKilled,
    NodeVanished,
    ServerKilled,
    SwitchOver,
    clustered,
)
from harness.torture.faults.processes import Kill, Pause, PauseBeforeClaim, PauseBeforeSettle, Terminate
from harness.torture.faults.servers import BackendsKilled
from harness.torture.histories import CODE, LATER
from harness.torture.scenario import CLUSTERS, Scenario, Size, register
from harness.torture.world import World

BETWEEN = (0.3, 1.5)
"""Seconds between two momentary faults."""
SHORTLY = (2.0, 4.0)
"""Seconds until a fault that is over at once counts as healed."""
RATE = 30
LEASES = {"LEASE": 6, "HEARTBEAT": 1}
LASTING: Mapping[str, tuple[type[Fault], ...]] = {
    "galera": (NodeKilled, NodeCut, NodeVanished),
    "groupreplication": (NodeKilled, NodeCut, NodeVanished),
    "groupreplication-single": (SwitchOver, NodeKilled, NodeCut, NodeVanished),
    "patroni": (SwitchOver, ServerKilled, NodeKilled, NodeCut, NodeVanished),
}
"""What happens to nodes, in turn."""


def attach(world: World, staying: int, failing_over: int) -> list[Executor]:
    """Executors attached to the nodes in turn: some for good, some with all nodes in their list of hosts.

    The sessions of the former wait for no other node, unless the library makes them.

    Where one node takes all writes, every executor must find it.
    """
    urls = cycle(world.database.urls)
    started = []
    for number in range(staying):
        environment = {} if clustered(world).is_led else {"DDT_CLUSTER_HOSTS": "[]", "DDT_CLUSTER_WAITS": ""}
        started.append(world.cluster.start(f"stays{number + 1}", url=next(urls), environment=environment))
    for number in range(failing_over):
        started.append(world.cluster.start(f"moves{number + 1}", url=next(urls)))
    return [executor.wait_until_ready() for executor in started]


@register
class Nodes(Scenario):
    """One node at a time may be away, while executors are killed, stopped and told to end."""

    name = "nodes"
    title = "nodes killed, cut off and vanished under load; executors on different nodes killed and stopped"
    databases = CLUSTERS
    settings = LEASES
    sizes = {"short": Size(tasks=300, faults=2), "full": Size(tasks=1_000_000)}

    def run(self, world: World) -> None:
        attach(world, staying=3, failing_over=2)
        momentary = [Kill(), Kill(), Kill(), Terminate(), BackendsKilled()]
        lasting = [fault() for fault in LASTING[world.database.name]]
        rare = [AllKilled(), Pause(), PauseBeforeClaim(), PauseBeforeSettle(), Pause(), PauseBeforeClaim()]
        clients = Clients(world)
        rounds = 0
        with clients.at_work():
            world.load.start(world.size.tasks, RATE)
            while not self._is_done(world, rounds):
                turn = rounds % (len(lasting) + 1)
                chosen = lasting[turn] if turn < len(lasting) else world.random.choice(rare)
                self._round(world, clients, chosen, momentary, world.random)
                rounds += 1

    def _is_done(self, world: World, rounds: int) -> bool:
        return rounds >= world.size.faults if world.size.faults else world.is_over

    def _round(
        self, world: World, clients: Clients, lasting: Fault, momentary: list[Fault], chance: random.Random
    ) -> None:
        world.sleep(chance.uniform(2, 4))
        with clients.struck(lasting.kind):
            is_away = isinstance(lasting, NodeKilled | NodeCut | NodeVanished)
            until = time.monotonic() + chance.uniform(*(clustered(world).away if is_away else SHORTLY))
            world.inject(lasting)
            while time.monotonic() < until:
                world.sleep(chance.uniform(*BETWEEN))
                if not isinstance(lasting, AllKilled):
                    world.inject(chance.choice(momentary))
            world.heal(lasting)


@register
class InTurn(Scenario):
    """Add by way of one node and cancel by way of another, again and again, while there is much to be replicated."""

    name = "nodes-in-turn"
    title = "what was added by way of one node is cancelled at once by way of another, also after switchovers"
    databases = CLUSTERS
    settings = LEASES
    sizes = {"short": Size(tasks=240, faults=2, extra=2000), "full": Size(tasks=10_000, faults=10, extra=5000)}
    """``faults``: how often there is much to be replicated, and, where there is a leader, another one is chosen;
    ``extra``: how many tasks that is.
    """

    def run(self, world: World) -> None:
        clients = Clients(world)
        ways = cycle([*permutations(clients.aliases, 2)] or [(clients.aliases[0],) * 2])
        for part in range(world.size.faults):
            for number in range(world.size.tasks // world.size.faults):
                first, second = next(ways)
                thing = f"turn {part}-{number}"
                if number % 40 == 0:
                    busy = partial(self._keep_busy, world, first, f"busy {part}-{number}-")
                    world.wait_until(busy, "much is to be replicated")
                if clients.add("driver", first, thing, LATER):
                    clients.cancel("driver", second, thing)
            if world.inject(fault := SwitchOver()):
                world.heal(fault)
        clients.conclude()

    def _keep_busy(self, world: World, node: str, name: str) -> int:
        """Commit, by way of this node, what keeps the other ones busy for a while: they are behind then."""
        number = world.size.extra
        rows = (Task(biz_code=CODE, biz_num=f"{name}{row}", when=timedelta(hours=1)) for row in range(number))
        return api.add_tasks(rows, batch_size=number, using=node)


@register
class LeaderCut(Scenario):
    """The leader's replication is cut, calls go on, and its server dies: what was answered is on the new leader."""

    name = "leader-cut"
    title = "the leader's replication is cut; it dies after a while, and another node leads"
    databases = frozenset({"patroni"})
    settings = LEASES
    sizes = {"short": Size(tasks=0, faults=1), "full": Size(tasks=0, faults=4)}

    def run(self, world: World) -> None:
        assert isinstance(world.database, Patroni)
        cluster = world.database.cluster
        cluster.be_synchronous(True)
        attach(world, staying=0, failing_over=2)
        clients = Clients(world)
        with clients.at_work():
            for _ in range(world.size.faults):
                world.sleep(2.0)
                leader = world.wait_until(cluster.leader, "a leader")
                assert leader is not None
                cut, killed = NodeCut(leader.number), ServerKilled(leader.number)
                with clients.struck("replication cut, then the leader's server killed"):
                    world.inject(cut)
                    world.sleep(3.0)
                    world.inject(killed)
                    world.wait_until(partial(_leads_another, cluster, leader), "another leader")
                    world.sleep(2.0)
                    world.heal(cut)
                    world.heal(killed)


@register
class CutOff(Scenario):
    """A scenario of an executor whose node is not primary any more, step by step."""

    name = "node-cut"
    title = "an executor whose node is cut off claims nothing until it is back; one with several hosts moves"
    databases = CLUSTERS - {"patroni"}
    settings = LEASES
    sizes = {"short": Size(tasks=60), "full": Size(tasks=200)}

    def run(self, world: World) -> None:
        stays = self._start(world, "stays", "[]")
        moves = self._start(world, "moves", None)
        for fault in (NodeCut(2), NodeKilled(2), NodeVanished(2)):
            self._go_without(world, fault, stays, moves)

    def _start(self, world: World, name: str, hosts: str | None) -> Executor:
        environment = {} if hosts is None else {"DDT_CLUSTER_HOSTS": hosts}
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


def _leads_another(cluster: ClusterOfPatroni, than: ClusterNode) -> bool:
    return cluster.leader() not in (None, than)


def _newest(name: str) -> int:
    return int(ExecutorRow.objects.filter(name=name).order_by("-id").values_list("id", flat=True)[0])


def _is_alive(name: str) -> bool:
    return ExecutorRow.objects.filter(name=name, alive=True).exists()

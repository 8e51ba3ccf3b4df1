"""What happens to the nodes of a cluster. One node at a time is away: with two of three the cluster keeps working."""

import random
from typing import TYPE_CHECKING

from harness.servers.nodes import ClusterNode
from harness.servers.patroni import Node as NodeOfPatroni
from harness.torture.databases.clustered import Clustered
from harness.torture.faults.base import Fault, in_mix
from harness.torture.faults.servers import Outage
from harness.torture.scenario import CLUSTERS

if TYPE_CHECKING:
    from harness.torture.world import World


class NodeAway(Fault):
    """A node goes; at the end it is back, with all data, and the cluster is whole."""

    databases = CLUSTERS
    weight = 2.0
    lasts = 10.0
    cuts_off = True

    def __init__(self, number: int | None = None) -> None:
        """``number`` of the node, from 1; None for any."""
        self._number = number
        self.node: ClusterNode | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        nodes = clustered(world).nodes
        self.node = clustered(world).node_to_strike(chance) if self._number is None else nodes[self._number - 1]
        self.begin(self.node)
        return True

    def heal(self, world: "World") -> None:
        node, self.node = self.node, None
        if node:
            self.end(world, node)
            node.await_ready()
            clustered(world).cluster.await_size(len(clustered(world).nodes))

    def begin(self, node: ClusterNode) -> None:
        """Take the node away."""
        raise NotImplementedError

    def end(self, world: "World", node: ClusterNode) -> None:
        """Let the node come back."""
        node.mend()


@in_mix
class NodeKilled(NodeAway):
    """SIGKILL; the node is started again and gets what it has missed from another."""

    kind = "node killed (SIGKILL), joined again"

    def begin(self, node: ClusterNode) -> None:
        node.kill()

    def end(self, world: "World", node: ClusterNode) -> None:
        clustered(world).cluster.await_gone()
        node.start()


@in_mix
class NodeCut(NodeAway):
    """The node is cut off from its peers, and its clients still reach it: it can commit nothing."""

    kind = "node cut off from its peers, joined again"

    def begin(self, node: ClusterNode) -> None:
        node.cut()


@in_mix
class NodeVanished(NodeAway):
    """The node cannot be reached, and no connection to it breaks: what was sent to it waits."""

    kind = "node vanished from the network, joined again"
    weight = 1.0

    def begin(self, node: ClusterNode) -> None:
        node.vanish()


class ServerKilled(NodeAway):
    """SIGKILL to PostgreSQL, of which Patroni hears at once."""

    kind = "server killed (SIGKILL) beside Patroni"
    databases = frozenset({"patroni"})

    def begin(self, node: ClusterNode) -> None:
        assert isinstance(node, NodeOfPatroni)
        node.kill_server()

    def end(self, world: "World", node: ClusterNode) -> None:
        """Do nothing: Patroni starts it again."""


class SwitchOver(Fault):
    """Another node takes the writes, in good order."""

    kind = "switchover to another node"
    databases = CLUSTERS - {"galera"}

    def inject(self, world: "World", chance: random.Random) -> bool:
        return clustered(world).switch_over()

    def heal(self, world: "World") -> None:
        clustered(world).cluster.await_size(len(clustered(world).nodes))


@in_mix
class AllKilled(Outage):
    """Every node is killed at once; the one whose data goes furthest begins the cluster again."""

    kind = "all nodes killed (SIGKILL), cluster begun again"
    databases = CLUSTERS
    weight = 0.3
    lasts = 2.0

    def heal(self, world: "World") -> None:
        super().heal(world)
        clustered(world).cluster.await_size(len(clustered(world).nodes))


def clustered(world: "World") -> Clustered:
    """The database of this world, which is a cluster."""
    assert isinstance(world.database, Clustered)
    return world.database

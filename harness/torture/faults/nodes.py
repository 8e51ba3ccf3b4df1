"""What happens to the nodes of a cluster. One node at a time is away: with two of three the cluster keeps working."""

import random
from typing import TYPE_CHECKING

from harness.servers.galera import Cluster, Node
from harness.torture.databases.galera import Galera
from harness.torture.faults.base import Fault, in_mix

if TYPE_CHECKING:
    from harness.torture.world import World

GALERA = frozenset({"galera"})


class NodeAway(Fault):
    """A node goes; at the end it is back, with all data, and the cluster is whole."""

    databases = GALERA
    weight = 2.0
    lasts = 10.0

    def __init__(self, number: int | None = None) -> None:
        """``number`` of the node, from 1; None for any."""
        self._number = number
        self.node: Node | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        nodes = cluster_of(world).nodes
        self.node = chance.choice(nodes) if self._number is None else nodes[self._number - 1]
        self.begin(self.node)
        return True

    def heal(self, world: "World") -> None:
        node, self.node = self.node, None
        if node:
            self.end(node)
            node.await_ready()
            cluster_of(world).await_size(len(cluster_of(world).nodes))

    def begin(self, node: Node) -> None:
        """Take the node away."""
        raise NotImplementedError

    def end(self, node: Node) -> None:
        """Let the node come back."""
        node.mend()


@in_mix
class NodeKilled(NodeAway):
    """SIGKILL; the node is started again and gets what it has missed from another."""

    kind = "node killed (SIGKILL), joined again"

    def begin(self, node: Node) -> None:
        node.kill()

    def end(self, node: Node) -> None:
        node.start()


@in_mix
class NodeCut(NodeAway):
    """The node is cut off from its peers, and its clients still reach it: not primary, it refuses everything."""

    kind = "node cut off from its peers, joined again"

    def begin(self, node: Node) -> None:
        node.cut()


@in_mix
class NodeVanished(NodeAway):
    """The node cannot be reached, and no connection to it breaks: what was sent to it waits."""

    kind = "node vanished from the network, joined again"
    weight = 1.0

    def begin(self, node: Node) -> None:
        node.vanish()


@in_mix
class AllKilled(Fault):
    """Every node is killed at once; the one whose data goes furthest begins the cluster again."""

    kind = "all nodes killed (SIGKILL), cluster begun again"
    databases = GALERA
    weight = 0.3
    lasts = 2.0

    def __init__(self) -> None:
        self._goes_on = False

    def inject(self, world: "World", chance: random.Random) -> bool:
        self._goes_on = True
        world.database.begin_outage()
        return True

    def heal(self, world: "World") -> None:
        if self._goes_on:
            world.database.end_outage()
            self._goes_on = False


def cluster_of(world: "World") -> Cluster:
    """The nodes of this world."""
    assert isinstance(world.database, Galera)
    return world.database.cluster

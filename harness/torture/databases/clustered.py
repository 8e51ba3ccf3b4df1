"""Three nodes: what the clusters have in common, and what those of MySQL and MariaDB have."""

import json
import random
from collections.abc import Mapping
from typing import Any

from harness.servers.nodes import ClusterNode, NodesOfCluster
from harness.torture.databases.base import Database

TIMEOUTS = {"connect_timeout": 3, "read_timeout": 20, "write_timeout": 20}


class Clustered(Database):
    """``cluster`` are the nodes. Executors are attached to them in turn, one each.

    Attributes:
        options: what sessions need to notice that their node is gone: Django's OPTIONS.
        is_led: whether one node takes all writes, to which the settings lead.
        away: for how many seconds a node may be away, from and to: shorter and longer than the others need to notice.
    """

    has_server = True
    cluster: NodesOfCluster[Any]
    options: Mapping[str, Any]
    is_led = False
    away = (6.0, 14.0)

    @property
    def nodes(self) -> list[ClusterNode]:
        return self.cluster.nodes

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def start(self) -> None:
        self.cluster.start()

    def stop(self) -> None:
        self.cluster.stop()

    def begin_outage(self) -> None:
        for node in self.nodes:
            node.kill()

    def end_outage(self) -> None:
        if not any(node.is_alive for node in self.nodes):
            self.cluster.restart()

    def node_to_strike(self, chance: random.Random) -> ClusterNode:
        """Choose the node to which something is to happen."""
        return chance.choice(self.nodes)

    def switch_over(self) -> bool:
        """Let another node take the writes, if only one does; whether one did."""
        return False


class ClusterOfMySQL(Clustered):
    """Executors fail over to the other nodes.

    Attributes:
        waits: see ``cluster_settings``.
        killable: the query for the ids of the connections that others have to a node.
    """

    vendor = "mysql"
    options = TIMEOUTS
    waits: str
    killable: str

    def kill_backends(self) -> int:
        killed = 0
        for node in self.nodes:
            found = [row[0] for row in node.ask(self.killable)] if node.is_ready() else []
            killed += sum(node.kill_connection(one) for one in found)
        return killed

    def environment(self, url: str) -> Mapping[str, str]:
        at = self.urls.index(url)
        hosts = [f"{node.addresses.clients}:{node.port}" for node in (*self.nodes[at:], *self.nodes[:at])]
        return {
            **super().environment(url),
            "DJANGO_SETTINGS_MODULE": "harness.torture.cluster_settings",
            "DDT_CLUSTER_HOSTS": json.dumps(hosts),
            "DDT_CLUSTER_WAITS": self.waits,
        }

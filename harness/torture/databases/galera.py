"""Three MariaDB nodes with Galera."""

import json
from collections.abc import Mapping
from pathlib import Path

from harness.servers.galera import Cluster, Node
from harness.torture.databases.base import Database

KILLABLE = "SELECT id FROM information_schema.processlist WHERE user = 'ddt' AND id <> CONNECTION_ID()"


class Galera(Database):
    """``cluster`` are the nodes. Executors are attached to them in turn, one each, and fail over to the others."""

    name = kind = "galera"
    vendor = "mysql"
    has_server = True

    def __init__(self) -> None:
        self.cluster = Cluster()

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.cluster.nodes]

    def start(self) -> None:
        self.cluster.start()

    def stop(self) -> None:
        self.cluster.stop()

    def begin_outage(self) -> None:
        for node in self.cluster.nodes:
            node.kill()

    def end_outage(self) -> None:
        if not any(node.is_alive for node in self.cluster.nodes):
            self.cluster.restart()

    def kill_backends(self) -> int:
        killed = 0
        for node in self.cluster.nodes:
            found = [row[0] for row in node.ask(KILLABLE)] if node.is_ready() else []
            killed += sum(node.kill_connection(one) for one in found)
        return killed

    def environment(self, url: str) -> Mapping[str, str]:
        first = next(node for node in self.cluster.nodes if node.url == url)
        return {
            **super().environment(url),
            "DJANGO_SETTINGS_MODULE": "harness.torture.galera_settings",
            "DDT_GALERA_HOSTS": json.dumps(self.hosts(first)),
        }

    def hosts(self, first: Node) -> list[str]:
        """Return all nodes as ``host:port``, this one first."""
        nodes = self.cluster.nodes
        at = nodes.index(first)
        return [f"{node.addresses.clients}:{node.port}" for node in (*nodes[at:], *nodes[:at])]


def create(folder: Path) -> Galera:
    return Galera()

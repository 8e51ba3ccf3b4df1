"""Three PostgreSQL nodes under Patroni, reached through HAProxy, which leads to the leader."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import connection

from harness.servers.nodes import ClusterNode
from harness.servers.patroni import TTL, Cluster
from harness.torture.databases.clustered import Clustered

BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
OF_LEADER = 0.7
"""How often what happens to a node happens to the leader."""


class Patroni(Clustered):
    name = kind = "patroni"
    vendor = "postgres"
    is_led = True
    options: Mapping[str, Any] = {"connect_timeout": 3}
    away = (TTL - 12.0, TTL + 8.0)

    def __init__(self) -> None:
        self.cluster: Cluster = Cluster()

    @property
    def urls(self) -> list[str]:
        return [self.cluster.url]

    def kill_backends(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(BACKENDS)
            return len(cursor.fetchall())

    def node_to_strike(self, chance: random.Random) -> ClusterNode:
        leader = self.cluster.leader()
        return leader if leader and chance.random() < OF_LEADER else super().node_to_strike(chance)

    def switch_over(self) -> bool:
        leader = self.cluster.leader()
        return leader is not None and leader.switch_over()


def create(folder: Path) -> Patroni:
    return Patroni()

"""Three MariaDB nodes with Galera."""

from pathlib import Path

from harness.servers.galera import Cluster
from harness.torture.databases.clustered import ClusterOfMySQL


class Galera(ClusterOfMySQL):
    name = kind = "galera"
    waits = "SET SESSION wsrep_sync_wait = 7"
    killable = "SELECT id FROM information_schema.processlist WHERE user = 'ddt' AND id <> CONNECTION_ID()"

    def __init__(self) -> None:
        self.cluster = Cluster()


def create(folder: Path) -> Galera:
    return Galera()

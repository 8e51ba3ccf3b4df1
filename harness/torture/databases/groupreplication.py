"""Three MySQL nodes with Group Replication, each of which takes writes, or one."""

from pathlib import Path

from harness.servers.groupreplication import Cluster
from harness.torture.databases.clustered import ClusterOfMySQL


class GroupReplication(ClusterOfMySQL):
    kind = "groupreplication"
    waits = "SET SESSION group_replication_consistency = 'BEFORE'"
    # The list of processes is refused if one of them sends a text beyond the Basic Multilingual Plane.
    killable = (
        "SELECT processlist_id FROM performance_schema.threads WHERE name = 'thread/sql/one_connection'"
        " AND processlist_user = 'ddt' AND processlist_id <> CONNECTION_ID()"
    )

    def __init__(self, is_single_primary: bool) -> None:
        self.name = f"{self.kind}-single" if is_single_primary else self.kind
        self.cluster: Cluster = Cluster(is_single_primary)
        self.is_led = is_single_primary

    def switch_over(self) -> bool:
        if self.is_led:
            self.cluster.switch_over(next(node for node in self.cluster.nodes if node is not self.cluster.primary()))
        return self.is_led


def create(folder: Path, mode: str = "") -> GroupReplication:
    return GroupReplication(mode == "single")

"""MySQL Router before a group of nodes that replicate with Group Replication, set up by its own ``--bootstrap``."""

import contextlib
import signal
from collections.abc import Callable, Sequence
from configparser import ConfigParser

from harness.servers.debian_folder import MYSQL, debian_folder
from harness.servers.groupreplication import GROUP
from harness.servers.packages import find_program
from harness.servers.processes import choose_account, run_as
from harness.servers.server import DATABASE, PASSWORD, USER, Server

OPTIONS = (
    "--conf-bind-address=127.0.0.1",
    "--disable-rest",
    "--disable-rw-split",
    "--client-ssl-mode=PASSTHROUGH",
    "--server-ssl-mode=AS_CLIENT",
    "--connect-timeout=2",
    "--read-timeout=3",
)
"""What docs/how-to/cluster.md says."""
_METADATA = "mysql_innodb_cluster_metadata"
_NODE = "CONCAT(member_host, ':', member_port)"
_TABLES = {
    "clusters": "cluster_id CHAR(36) PRIMARY KEY, cluster_name TEXT, group_name TEXT, router_options JSON",
    "routers": (
        "router_id INT AUTO_INCREMENT PRIMARY KEY, router_name TEXT, product_name TEXT, address TEXT, version TEXT, "
        "last_check_in TIMESTAMP NULL, attributes JSON, cluster_id TEXT, options JSON"
    ),
}
_VIEWS = {
    "schema_version": "SELECT 2 AS major, 0 AS minor, 0 AS patch",
    "v2_instances": (
        f"SELECT member_id AS instance_id, '{DATABASE}' AS cluster_id, member_id AS mysql_server_uuid, "
        f"{_NODE} AS label, {_NODE} AS address, {_NODE} AS endpoint, NULL AS xendpoint, '{{}}' AS attributes "
        "FROM performance_schema.replication_group_members"
    ),
    "v2_this_instance": (
        f"SELECT cluster_id, '{DATABASE}' AS cluster_name, 'gr' AS cluster_type, instance_id "
        f"FROM {_METADATA}.v2_instances JOIN performance_schema.global_variables "
        "ON VARIABLE_NAME = 'server_uuid' AND VARIABLE_VALUE = mysql_server_uuid"
    ),
    "v2_gr_clusters": f"SELECT * FROM {_METADATA}.clusters",
    "v2_routers": f"SELECT * FROM {_METADATA}.routers",
}


def write_metadata(execute: Callable[[str], object]) -> None:
    """Make what Router reads, and MySQL Shell makes otherwise; ``execute`` sends a statement to the primary node.

    It is the least that Router asks for. Shell writes the nodes into tables; here a view gives those that are members.
    """
    execute(f"CREATE DATABASE IF NOT EXISTS {_METADATA}")
    for name, columns in _TABLES.items():
        execute(f"CREATE TABLE IF NOT EXISTS {_METADATA}.{name} ({columns})")
    execute(f"INSERT IGNORE INTO {_METADATA}.clusters VALUES ('{DATABASE}', '{DATABASE}', '{GROUP}', '{{}}')")
    for name, select in _VIEWS.items():
        execute(f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW {_METADATA}.{name} AS {select}")


class MySQLRouter(Server):
    """Leads to the primary node of a group, of which it is given the address and port of any node.

    With ``is_splitting`` it is set up without `OPTIONS`, and leads reads to other nodes.
    """

    name = "mysqlrouter"
    scheme = "mysql"
    stop_signal = signal.SIGKILL  # it has nothing to lose

    def __init__(self, node: str, is_splitting: bool = False) -> None:
        super().__init__()
        self._node = node
        self._is_splitting = is_splitting

    def find(self) -> None:
        program = find_program(["mysqlrouter"])
        if program is None:
            self.root = debian_folder(MYSQL)
            program = "/usr/bin/mysqlrouter"
        self.program = program
        self.account = choose_account("mysql")

    def initialise(self) -> None:
        command = [
            self.program,
            f"--bootstrap={USER}:{PASSWORD}@{self._node}",
            f"--directory={self.inside(self.folder / 'router')}",
            f"--name={self.folder.name}",
            "--report-host=localhost",
            *([] if self._is_splitting else OPTIONS),
        ]
        run_as(self.account, command, self.folder, root=self.root)

    def command(self) -> Sequence[str]:
        settings = ConfigParser(interpolation=None)
        settings.read(self.folder / "router" / "mysqlrouter.conf")
        used = "routing:bootstrap_rw_split" if self._is_splitting else "routing:bootstrap_rw"
        for section in settings.sections():
            if section.startswith("routing:") and section != used:
                settings.remove_section(section)
        settings[used].update(bind_address="127.0.0.1", bind_port=str(self.port))
        settings["DEFAULT"]["logging_folder"] = ""  # which is stderr
        path = self.folder / "mysqlrouter.conf"
        with path.open("w") as stream:
            settings.write(stream)
        self.account.own(path)
        return [self.program, f"--config={self.inside(path)}"]

    def answers(self) -> bool:
        """Whether a client is led to a node: before it has found them, it listens and refuses."""
        import MySQLdb

        with contextlib.suppress(MySQLdb.Error):
            MySQLdb.connect(host="127.0.0.1", port=self.port, user=USER, passwd=PASSWORD, connect_timeout=2).close()
            return True
        return False

"""MySQL Router before a group of nodes that replicate with Group Replication."""

import contextlib
import json
import signal
from collections.abc import Callable, Mapping, Sequence

from harness.servers.debian_folder import MYSQL, debian_folder
from harness.servers.groupreplication import GROUP
from harness.servers.packages import find_program, install
from harness.servers.processes import choose_account, run_as
from harness.servers.server import DATABASE, PASSWORD, USER, Server

_NODES = f"destinations = metadata-cache://{DATABASE}/?role="
WRITING = (f"{_NODES}PRIMARY", "routing_strategy = first-available")
"""The route to the primary node, as ``mysqlrouter --bootstrap`` writes it for port 6446."""
SPLITTING = (
    f"{_NODES}PRIMARY_AND_SECONDARY",
    "routing_strategy = round-robin",
    "access_mode = auto",
    "connection_sharing = 1",
)
"""The route on which reads are answered by other nodes than writes, as it writes it for port 6450."""
REFRESHED_EVERY = 0.5
"""Seconds between two questions about who the primary node is: Router's default."""
CERTIFICATE, KEY = "router-cert.pem", "router-key.pem"
METADATA = "mysql_innodb_cluster_metadata"
_ROUTER = 1
_CLUSTER = f"'{DATABASE}' AS cluster_id, '{DATABASE}' AS cluster_name"
_VIEWS: Mapping[str, str] = {
    "schema_version": "SELECT 2 AS major, 0 AS minor, 0 AS patch",
    "v2_this_instance": f"SELECT {_CLUSTER}, 'gr' AS cluster_type",
    "v2_gr_clusters": f"SELECT {_CLUSTER}, '{GROUP}' AS group_name",
    "v2_instances": (
        f"SELECT '{DATABASE}' AS cluster_id, member_id AS mysql_server_uuid, member_host AS label, "
        "CONCAT(member_host, ':', member_port) AS endpoint, NULL AS xendpoint, '{}' AS attributes "
        "FROM performance_schema.replication_group_members"
    ),
}
_OF_ROUTERS = (
    "router_id INT PRIMARY KEY, router_name TEXT, address TEXT, version TEXT, last_check_in TIMESTAMP NULL, "
    "attributes JSON, options JSON"
)
"""The columns of the table in which each Router notes that it lives."""


def write_metadata(execute: Callable[[str], object]) -> None:
    """Make what Router reads, and MySQL Shell makes otherwise; ``execute`` sends a statement to the primary node.

    Shell writes the nodes into tables. Here views give those that are members now: Router asks for no more.
    """
    execute(f"CREATE DATABASE IF NOT EXISTS {METADATA}")
    for name, select in _VIEWS.items():
        execute(f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW {METADATA}.{name} AS {select}")
    execute(f"CREATE TABLE IF NOT EXISTS {METADATA}.v2_routers ({_OF_ROUTERS})")
    execute(f"INSERT IGNORE INTO {METADATA}.v2_routers (router_id, options) VALUES ({_ROUTER}, '{{}}')")


class MySQLRouter(Server):
    """Leads to a group's nodes, some of which it is given by address and port; it finds the others through these."""

    name = "mysqlrouter"
    scheme = "mysql"
    stop_signal = signal.SIGKILL  # it has nothing to lose

    def __init__(self, nodes: Sequence[str], route: Sequence[str] = WRITING) -> None:
        super().__init__()
        self._nodes = nodes
        self._route = route

    def find(self) -> None:
        program = find_program(["mysqlrouter"])
        if program is None:
            self.root = debian_folder(MYSQL)
            program = "/usr/bin/mysqlrouter"
        self.program = program
        self.account = choose_account("mysql")

    def initialise(self) -> None:
        """Write where the nodes are, and the password, which it takes from a file of its own kind only."""
        servers = [f"mysql://{node}" for node in self._nodes]
        state = {"group-replication-id": GROUP, "cluster-metadata-servers": servers}
        self._write("state.json", json.dumps({"version": "1.0.0", "metadata-cache": state}))
        folder = self.inside(self.folder)
        key, keyring = f"--master-key-file={folder}/master.key", f"{folder}/keyring"
        for command in (["init", key, keyring], ["set", key, keyring, USER, "password", PASSWORD]):
            run_as(self.account, [f"{self.program}_keyring", *command], self.folder, root=self.root)
        self._make_certificate()

    def _make_certificate(self) -> None:
        program = find_program(["openssl"])
        if program is None:
            install(["openssl"], "MySQL Router")
            program = "/usr/bin/openssl"
        options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=router"]  # clients without TLS use RSA
        paths = ["-out", str(self.folder / CERTIFICATE), "-keyout", str(self.folder / KEY)]
        run_as(self.account, [program, "req", *options, *paths], self.folder)

    def command(self) -> Sequence[str]:
        folder = self.inside(self.folder)
        lines = [
            "[DEFAULT]",
            "logging_folder =",
            f"runtime_folder = {folder}",
            f"data_folder = {folder}",
            f"keyring_path = {folder}/keyring",
            f"master_key_path = {folder}/master.key",
            f"dynamic_state = {folder}/state.json",
            "[logger]",
            "level = INFO",
            f"[metadata_cache:{DATABASE}]",
            "cluster_type = gr",
            f"metadata_cluster = {DATABASE}",
            f"router_id = {_ROUTER}",
            f"user = {USER}",
            f"ttl = {REFRESHED_EVERY}",
            f"[routing:{DATABASE}]",
            "protocol = classic",
            "bind_address = 127.0.0.1",
            f"bind_port = {self.port}",
            "client_ssl_mode = PREFERRED",
            f"client_ssl_cert = {folder}/{CERTIFICATE}",
            f"client_ssl_key = {folder}/{KEY}",
            "server_ssl_mode = PREFERRED",
            *self._route,
        ]
        self._write("mysqlrouter.conf", "\n".join([*lines, ""]))
        return [self.program, f"--config={folder}/mysqlrouter.conf"]

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        self.account.own(path)

    def answers(self) -> bool:
        """Whether a client is led to a node: before it has found them, it listens and refuses."""
        import MySQLdb

        with contextlib.suppress(MySQLdb.Error):
            MySQLdb.connect(host="127.0.0.1", port=self.port, user=USER, passwd=PASSWORD, connect_timeout=2).close()
            return True
        return False

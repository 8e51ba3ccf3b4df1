"""A cluster of three MariaDB nodes with Galera: started, killed, cut off, joined again.

``python -m harness.servers.galera [-- command …]`` holds one, or runs a command with DATABASE_URL_GALERA_1 and so on.
"""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.servers.mariadb import MariaDB, common_options
from harness.servers.nodes import ClusterNode, NodesOfCluster, hold
from harness.servers.packages import find_program, install
from harness.servers.processes import child_environment, child_setup, choose_account, start_as
from harness.servers.server import DATABASE, Server, free_port
from harness.servers.wires import Loopback, Wires

PACKAGES = ("mariadb-server", "galera-4", "rsync", "iproute2")
"""mariadb-server has the scripts by which a node copies another one's data."""
PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
COPYING = ("wsrep_sst_rsync", "rsync", "ss")
RECOVERY_TIMEOUT = 120.0  # seconds


class Node(ClusterNode, MariaDB):
    """One node of MariaDB."""

    name = "galera"

    def __init__(self, number: int, wires: Wires) -> None:
        super().__init__(number, wires)
        self.members = ""
        self.ist, self.sst = free_port(), free_port()
        self.is_first = False

    def find(self) -> None:
        if self._programs() is None or _provider() is None or not all(find_program([name]) for name in COPYING):
            install(PACKAGES, "Galera")
        programs = self._programs()
        assert programs is not None
        self.server_program, self.install_program = programs
        self.account = choose_account("mysql")

    def options(self) -> list[str]:
        """Return all options but those that say how the node begins."""
        ours = self.addresses
        provider = {
            "gmcast.listen_addr": f"tcp://{ours.peers}:{self.base}",
            "ist.recv_addr": f"{ours.peers}:{self.ist}",
            "gcache.size": "64M",
            "evs.suspect_timeout": "PT3S",
            "evs.inactive_timeout": "PT6S",
            "evs.install_timeout": "PT6S",
        }
        return [
            *(option for option in common_options(self) if not option.startswith(("--bind-", "--innodb-buffer"))),
            "--bind-address=0.0.0.0",
            "--innodb-buffer-pool-size=48M",
            "--innodb-autoinc-lock-mode=2",
            "--binlog-format=ROW",
            "--wsrep-on=ON",
            f"--wsrep-provider={_provider()}",
            f"--wsrep-cluster-name={DATABASE}",
            f"--wsrep-node-name=node{self.number}",
            f"--wsrep-node-address={ours.peers}:{self.base}",
            f"--wsrep-provider-options={';'.join(f'{key}={value}' for key, value in provider.items())}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address={ours.peers}:{self.sst}",
            "--wsrep-slave-threads=2",
        ]

    def command(self) -> Sequence[str]:
        return [self.server_program, "--no-defaults", *self.options()]

    def start(self) -> None:
        """Start the node; :meth:`await_ready` waits until it is a member."""
        position = self.recovered_position()
        members = "gcomm://" if self.is_first else self.members
        command = [*self.command(), f"--wsrep-cluster-address={members}"]
        if position:
            command.append(f"--wsrep-start-position={position}")
        if self.is_first:
            self._allow_to_begin()
            command.append("--wsrep-new-cluster")
        with self.wires.inside(self.number):
            self.process = start_as(self.account, command, self.folder, self.log)
        self.is_first = False

    @property
    def _state(self) -> Path:
        return self.folder / "data" / "grastate.dat"

    def _allow_to_begin(self) -> None:
        if self._state.exists():
            text = self._state.read_text().replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1")
            self._state.write_text(text)

    def recovered_position(self) -> str:
        """Return where its data ends after a crash, so that it need not copy all of another node (as Debian does).

        It is empty if the node ended in good order, or never began.
        """
        if not self._state.exists() or "seqno:   -1" not in self._state.read_text():
            return ""
        command = [*self.command(), f"--wsrep-cluster-address={self.members}", "--wsrep-recover"]
        result = subprocess.run(
            command, cwd=self.folder, env=child_environment(self.folder), timeout=RECOVERY_TIMEOUT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            preexec_fn=child_setup(self.account, None, signal.SIGKILL),
        )  # fmt: skip
        positions = re.findall(r"Recovered position: (\S+:-?\d+)", result.stdout)
        return str(positions[-1]) if positions else ""

    def is_ready(self) -> bool:
        """Whether this node belongs to the primary component and has all data."""
        status = self.status()
        return status.get("wsrep_ready") == "ON" and status.get("wsrep_cluster_status") == "Primary"

    def status(self) -> dict[str, str]:
        """Return what the node reports about the cluster; nothing if it does not answer."""
        with contextlib.suppress(Exception):
            return dict(self.ask("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'"))
        return {}

    def size(self) -> int:
        return int(self.status().get("wsrep_cluster_size", 0))

    def isolate(self, is_isolated: bool) -> None:
        self.ask(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={is_isolated:d}'")


class Cluster(NodesOfCluster[Node]):
    """Three nodes; node 1 began it."""

    def __init__(self) -> None:
        super().__init__(Node)
        members = ",".join(f"{node.addresses.peers}:{node.base}" for node in self.nodes)
        for node in self.nodes:
            node.members = f"gcomm://{members}"

    @classmethod
    def parts(cls) -> Sequence[Server]:
        return [Node(0, Loopback())]

    def start(self) -> None:
        """Start all nodes, one after another: each copies the data of one before it."""
        for node in self.nodes:
            node.prepare()
        self._start_from(self.nodes[0])

    def restart(self) -> None:
        """Restart all nodes after they were killed: the one with the latest data begins the cluster again."""
        furthest = max(self.nodes, key=lambda node: int(node.recovered_position().rpartition(":")[2] or -1))
        self._start_from(furthest)

    def _start_from(self, first: Node) -> None:
        first.is_first = True
        for node in sorted(self.nodes, key=lambda node: node is not first):
            node.start()
            node.await_ready()


def _provider() -> str | None:
    return next((path for path in PROVIDERS if Path(path).exists()), None)


if __name__ == "__main__":
    sys.exit(hold("GALERA", Cluster, sys.argv[1:]))

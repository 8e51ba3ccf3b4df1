"""A cluster of three MariaDB nodes with Galera: started, killed, cut off, joined again.

``python -m tests.servers.galera [-- command …]`` holds one, or runs a command with DATABASE_URL_GALERA_1 and so on.
"""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.servers.commands import Interrupted, catch_signals, run_command
from tests.servers.mariadb import MariaDB, common_options
from tests.servers.packages import find_program, install
from tests.servers.processes import ServerError, child_environment, child_setup, choose_account, start_as
from tests.servers.server import DATABASE, PASSWORD, USER, free_port
from tests.servers.wires import Addresses, Loopback, Wires, wires_for

PACKAGES = ("mariadb-server", "galera-4", "rsync", "iproute2")
"""mariadb-server has the scripts by which a node copies another one's data."""
PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
NODES = 3
JOIN_TIMEOUT = 180.0  # seconds
PATIENCE = 60.0  # seconds that the others may take to notice that a node is gone, or is back


class Node(MariaDB):
    """One node. Its ports are its own for good: the others look for it there."""

    name = "galera"

    def __init__(self, number: int, wires: Wires) -> None:
        super().__init__()
        self.number = number
        self.wires = wires
        self.members = ""
        self.port, self.base, self.ist, self.sst = (free_port() for _ in range(4))
        self.is_first = False

    @property
    def addresses(self) -> Addresses:
        return self.wires.addresses(self.number)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{USER}:{PASSWORD}@{self.addresses.clients}:{self.port}/{DATABASE}"

    def find(self) -> None:
        if self._programs() is None or _provider() is None or not find_program(["wsrep_sst_rsync"]):
            install(PACKAGES, "Galera")
        programs = self._programs()
        assert programs is not None
        self.server_program, self.install_program = programs
        self.account = choose_account("mysql")

    def options(self) -> list[str]:
        """All options but those that say how the node begins."""
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
        """Start the node and return when it is a member that can be written to."""
        members = "gcomm://" if self.is_first else self.members
        command = [*self.command(), f"--wsrep-cluster-address={members}", *self._recovered_position()]
        if self.is_first:
            command.append("--wsrep-new-cluster")
        with self.wires.inside(self.number):
            self.process = start_as(self.account, command, self.folder, self.log)
        self.is_first = False

    def await_ready(self) -> None:
        """Until the node is a member that can be written to; ServerError with its log when it does not become one."""
        deadline = time.monotonic() + JOIN_TIMEOUT
        while not self.is_ready():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"node {self.number} is not ready:\n{self.log.read_text(errors='replace')[-6000:]}")
            time.sleep(0.1)

    def _recovered_position(self) -> list[str]:
        """After a crash: up to where its data goes, so that it need not copy another node's (as Debian's unit does)."""
        state = self.folder / "data" / "grastate.dat"
        if not state.exists() or "seqno:   -1" not in state.read_text():
            return []
        command = [*self.command(), f"--wsrep-cluster-address={self.members}", "--wsrep-recover"]
        result = subprocess.run(
            command, cwd=self.folder, env=child_environment(self.folder), timeout=60, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
            preexec_fn=child_setup(self.account, None, signal.SIGKILL),
        )  # fmt: skip
        positions = re.findall(r"Recovered position: (\S+:\d+)", result.stdout)
        return [f"--wsrep-start-position={positions[-1]}"] if positions else []

    def is_ready(self) -> bool:
        """Whether this node belongs to the primary component and has all data."""
        status = self.status()
        return status.get("wsrep_ready") == "ON" and status.get("wsrep_cluster_status") == "Primary"

    def status(self) -> dict[str, str]:
        """What the node says of the cluster; nothing when it does not answer."""
        with contextlib.suppress(Exception):
            return dict(self.ask("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'"))
        return {}

    def ask(self, sql: str) -> list[Any]:
        """The answer of this node, on a connection of its own."""
        import MySQLdb

        with contextlib.closing(
            MySQLdb.connect(
                host=self.addresses.clients, port=self.port, user=USER, passwd=PASSWORD, connect_timeout=2,
                read_timeout=5, autocommit=True,
            )
        ) as connection, contextlib.closing(connection.cursor()) as cursor:  # fmt: skip
            cursor.execute(sql)
            return list(cursor.fetchall() or ())

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.addresses.clients, self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def cut(self) -> None:
        """From now on the node hears nothing of its peers, nor they of it. Its clients still reach it."""
        if isinstance(self.wires, Loopback):
            self.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
        else:
            self.wires.cut(self.number)

    def mend(self) -> None:
        """Undo :meth:`cut`."""
        if isinstance(self.wires, Loopback):
            self.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
        else:
            self.wires.mend(self.number)


class Cluster:
    """Three nodes; node 1 began it. Starts its processes in the thread that calls it, and they end with that one."""

    def __init__(self) -> None:
        Node(0, Loopback()).find()
        self.wires = wires_for(NODES)
        self.nodes = [Node(number, self.wires) for number in range(1, NODES + 1)]
        members = ",".join(f"{node.addresses.peers}:{node.base}" for node in self.nodes)
        for node in self.nodes:
            node.members = f"gcomm://{members}"

    def start(self) -> None:
        """All nodes, one after another: each copies the data of one before it."""
        for node in self.nodes:
            node.find()
            node.prepare()
        self.nodes[0].is_first = True
        for node in self.nodes:
            node.start()
            node.await_ready()

    def await_size(self, size: int) -> None:
        """Until the nodes that are ready agree on how many there are, and are so many."""
        deadline = time.monotonic() + PATIENCE
        while not self._has_size(size):
            if time.monotonic() > deadline:
                raise ServerError(f"the cluster has not {size} nodes: {[node.status() for node in self.nodes]}")
            time.sleep(0.1)

    def _has_size(self, size: int) -> bool:
        sizes = [node.status().get("wsrep_cluster_size") for node in self.nodes if node.is_ready()]
        return sizes == [str(size)] * size

    def stop(self) -> None:
        """End all nodes and remove their data."""
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.kill()
            node.stop()


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A cluster that is stopped afterwards, whatever happens."""
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _provider() -> str | None:
    return next((path for path in PROVIDERS if Path(path).exists()), None)


def main(arguments: Sequence[str]) -> int:
    """Run a command with a cluster, or hold one until a signal comes."""
    catch_signals()
    try:
        with running_cluster() as cluster:
            urls = {f"DATABASE_URL_GALERA_{node.number}": node.url for node in cluster.nodes}
            print(*(f"{name}={url}" for name, url in urls.items()), sep="\n", flush=True)
            if arguments:
                return run_command(arguments[arguments[0] == "--" :], urls, pass_on=signal.SIGTERM, grace=20.0)
            while True:
                signal.pause()
    except Interrupted as interrupted:
        return 128 + interrupted.signum


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

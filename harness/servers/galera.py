"""A cluster of three MariaDB nodes with Galera: started, killed, cut off, joined again.

``python -m harness.servers.galera [-- command …]`` holds one, or runs a command with DATABASE_URL_GALERA_1 and so on.
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

from harness.servers.commands import Interrupted, catch_signals, run_command
from harness.servers.mariadb import MariaDB, common_options
from harness.servers.packages import find_program, install
from harness.servers.processes import ServerError, child_environment, child_setup, choose_account, start_as
from harness.servers.server import DATABASE, PASSWORD, USER, free_port
from harness.servers.wires import CLIENTS, Addresses, Loopback, Wires, wires_for

PACKAGES = ("mariadb-server", "galera-4", "rsync", "iproute2")
"""mariadb-server has the scripts by which a node copies another one's data."""
PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
NODES = 3
JOIN_TIMEOUT = 180.0  # seconds
RECOVERY_TIMEOUT = 120.0  # seconds
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

    def await_ready(self) -> None:
        """Wait until the node is a member that accepts writes; raise ServerError with its log if it never is."""
        deadline = time.monotonic() + JOIN_TIMEOUT
        while not self.is_ready():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"node {self.number} is not ready:\n{self.log.read_text(errors='replace')[-6000:]}")
            time.sleep(0.1)

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

    def kill_connection(self, number: int) -> bool:
        """End one connection to this node; False if it has gone by itself."""
        with contextlib.suppress(Exception):
            self.ask(f"KILL {number:d}")
            return True
        return False

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.addresses.clients, self.port), timeout=1):
            return True
        return False

    @property
    def is_alive(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, if it lives."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def vanish(self) -> None:
        """Cut the node off from its peers and its clients; connections to it are not even refused.

        Where all nodes share an interface it is stopped instead, which looks the same from outside.
        """
        if isinstance(self.wires, Loopback):
            assert self.process is not None
            self.process.send_signal(signal.SIGSTOP)
        else:
            self.wires.cut(self.number)
            self.wires.cut(self.number, CLIENTS)

    def cut(self) -> None:
        """Cut the node off from its peers. Its clients still reach it."""
        if isinstance(self.wires, Loopback):
            self.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
        else:
            self.wires.cut(self.number)

    def mend(self) -> None:
        """Undo :meth:`cut` and :meth:`vanish`."""
        if isinstance(self.wires, Loopback):
            assert self.process is not None
            self.process.send_signal(signal.SIGCONT)
            self.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
        else:
            self.wires.mend(self.number)
            self.wires.mend(self.number, CLIENTS)


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
        """Start all nodes, one after another: each copies the data of one before it."""
        for node in self.nodes:
            node.find()
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

    def await_size(self, size: int) -> None:
        """Wait until ``size`` nodes are ready and agree on that number."""
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
            node.kill()
            node.stop()
        self.wires.leave()


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
            urls["DATABASE_URL_GALERA"] = cluster.nodes[0].url
            print(*(f"{name}={url}" for name, url in urls.items()), sep="\n", flush=True)
            if arguments:
                return run_command(arguments[arguments[0] == "--" :], urls, pass_on=signal.SIGTERM, grace=20.0)
            while True:
                signal.pause()
    except Interrupted as interrupted:
        return 128 + interrupted.signum


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

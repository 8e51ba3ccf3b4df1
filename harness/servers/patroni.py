"""Three PostgreSQL servers under Patroni, with etcd, and HAProxy before them: what a team on PostgreSQL has.

A commit is answered when it is on a second node (strict synchronous mode), unless the cluster is told otherwise.
HAProxy leads to the leader.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import psycopg

from harness.servers.downloads import CannotBeHad, cache_folder, download, made_once
from harness.servers.folders import HeldFolder
from harness.servers.guard import kill_all, processes_in, signal_all, start_guard
from harness.servers.nodes import NODES, PATIENCE, ClusterNode, NodesOfCluster
from harness.servers.packages import find_program, install
from harness.servers.postgres import Postgres
from harness.servers.processes import Account, ServerError, child_setup, choose_account, start_as
from harness.servers.server import DATABASE, MAX_CONNECTIONS, PASSWORD, USER, Server, free_port
from harness.servers.wires import Loopback, Wires

PATRONI = "patroni[etcd3,psycopg3]==4.1.*"
PYTHONS = ("/usr/local/bin", "/usr/bin")
INSTALL_TIMEOUT = 600.0  # seconds
TTL = 20
"""Seconds after which the leader of which nothing is heard is none any more: the least that Patroni takes."""
SETTINGS: Mapping[str, Any] = {
    "ttl": TTL,
    "loop_wait": 1,
    "retry_timeout": 3,
    "primary_start_timeout": 0,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "maximum_lag_on_failover": 1 << 30,
}
PARAMETERS: Mapping[str, Any] = {
    "max_connections": MAX_CONNECTIONS,
    "shared_buffers": "64MB",
    "timezone": "Asia/Kolkata",
    "wal_keep_size": "256MB",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
}


@dataclass(frozen=True)
class Library:
    """An interpreter, and the folder with Patroni for it."""

    python: str
    folder: Path

    @classmethod
    def found(cls, account: Account) -> "Library":
        """Return that of the first interpreter that the account can run, made if it is not there yet."""
        if (found := _python_for(account)) is None:
            install(["python3"], "Patroni")
            found = _python_for(account)
        if found is None:
            raise CannotBeHad(f"Patroni cannot be had here: no Python can be run as {account.name}.")
        python, version = found
        folder = cache_folder() / f"patroni-4.1-python{version}"
        return cls(python, made_once(folder, partial(_install, python)))


def _python_for(account: Account) -> tuple[str, str] | None:
    """The first interpreter that the account can run, and its version."""
    base = getattr(sys, "_base_executable", sys.executable)
    for python in (base, *(str(Path(folder) / "python3") for folder in PYTHONS)):
        if version := _version_for(account, python):
            return python, version
    return None


def _version_for(account: Account, python: str) -> str:
    """The version, or nothing if the account cannot run it: a home folder may be closed to it."""
    command = [python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        setup = child_setup(account, None, signal.SIGKILL)
        found = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, preexec_fn=setup)
        return found.stdout.strip()
    return ""


def _install(python: str, folder: Path) -> None:
    print(f"Installing {PATRONI}, once ...", file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--target", str(folder), PATRONI]
    download(pip, what_for="Patroni", timeout=INSTALL_TIMEOUT, into=folder)


class Etcd(Server):
    """Where Patroni keeps who the leader is."""

    name = "etcd"
    scheme = "http"
    stop_signal = signal.SIGKILL

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def find(self) -> None:
        self.program = _program("etcd", "etcd-server")
        self.account = choose_account("postgres")

    def initialise(self) -> None:
        """Do nothing: it makes its data itself."""

    def command(self) -> Sequence[str]:
        clients, peers = f"http://{self.address}:{self.port}", f"http://127.0.0.1:{free_port()}"
        return [
            self.program, f"--data-dir={self.folder / 'data'}", "--name=one",
            f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=one={peers}",
        ]  # fmt: skip

    def answers(self) -> bool:
        return _http(f"http://{self.address}:{self.port}/health")[0] == 200


class HAProxy(Server):
    """Leads to the leader; sessions of one that is no leader any more are closed."""

    name = "haproxy"
    scheme = "postgres"
    stop_signal = signal.SIGKILL

    def __init__(self, nodes: Sequence["Node"]) -> None:
        super().__init__()
        self._nodes = nodes

    def find(self) -> None:
        self.program = _program("haproxy", "haproxy")
        self.account = choose_account("postgres")

    def initialise(self) -> None:
        """Do nothing: it has no data."""

    def command(self) -> Sequence[str]:
        servers = [
            f"    server node{node.number} {node.addresses.clients}:{node.port} check port {node.base}"
            for node in self._nodes
        ]
        lines = [
            "global",
            f"    stats socket {self._socket}",
            "defaults",
            "    mode tcp",
            "    timeout connect 3s",
            "    timeout client 1h",
            "    timeout server 1h",
            "    timeout check 2s",
            "listen leader",
            f"    bind 127.0.0.1:{self.port}",
            "    option httpchk GET /primary",
            "    http-check expect status 200",
            "    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions",
            *servers,
        ]
        path = self.folder / "haproxy.cfg"
        path.write_text("\n".join([*lines, ""]))
        self.account.own(path)
        return [self.program, "-db", "-f", str(path)]

    def answers(self) -> bool:
        """Whether it has asked all nodes: before that it takes each for the leader."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            connection.sendall(b"show stat\n")
            states = b"".join(iter(lambda: connection.recv(65536), b""))
            return b"node1" in states and b",INI," not in states
        return False

    @property
    def _socket(self) -> Path:
        return self.folder / "haproxy.sock"


class Node(ClusterNode, Postgres):
    """One node: Patroni, and PostgreSQL, which Patroni starts. Its ports are its own for good."""

    name = "patroni"

    def __init__(self, number: int, wires: Wires) -> None:
        super().__init__(number, wires)
        self.etcd = ""
        self.library: Library

    def find(self) -> None:
        super().find()
        self.library = Library.found(self.account)

    @property
    def title(self) -> str:
        """Its name in the cluster."""
        return f"node{self.number}"

    def initialise(self) -> None:
        """Write what Patroni is to read. It makes the data."""
        path = self.folder / "patroni.yml"
        path.write_text(json.dumps(self._configuration()))
        self.account.own(path)

    def _configuration(self) -> Mapping[str, Any]:
        ours = self.addresses
        rest = f"{ours.clients}:{self.base}"
        account = {"username": USER, "password": PASSWORD}
        return {
            "scope": DATABASE,
            "name": self.title,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": self.etcd},
            "bootstrap": {
                "dcs": {**SETTINGS, "postgresql": {"use_pg_rewind": True, "parameters": PARAMETERS}},
                "initdb": ["data-checksums", {"encoding": "UTF8"}, {"locale": "C.UTF-8"}],
            },
            "postgresql": {
                "listen": f"{'127.0.0.1' if isinstance(self.wires, Loopback) else '0.0.0.0'}:{self.port}",
                "connect_address": f"{ours.peers}:{self.port}",  # replicas use it
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(self.programs),
                "pgpass": str(self.folder / "pgpass"),
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": [f"host {what} all 0.0.0.0/0 scram-sha-256" for what in ("all", "replication")]
                + ["local all all scram-sha-256"],
                "authentication": {
                    "superuser": account,
                    "replication": {"username": "replicator", "password": PASSWORD},
                },
            },
        }

    def command(self) -> Sequence[str]:
        path = f"PYTHONPATH={self.library.folder}"
        return ["/usr/bin/env", path, self.library.python, "-m", "patroni", str(self.folder / "patroni.yml")]

    def start(self) -> None:
        """Start the node; :meth:`await_ready` waits until it is a member."""
        with self.wires.inside(self.number):
            self.process = start_as(self.account, self.command(), self.folder, self.log)

    def status(self) -> Mapping[str, Any]:
        """What Patroni says of this node; nothing if it does not answer."""
        return _http(self.rest("patroni"))[1]

    def is_ready(self) -> bool:
        return self.is_leader() or self.status().get("replication_state") == "streaming"

    def size(self) -> int:
        members = _http(self.rest("cluster"))[1].get("members", ())
        return sum(member["state"] in ("running", "streaming") for member in members)

    def is_leader(self) -> bool:
        """Whether it holds the lock, and PostgreSQL takes writes."""
        return _http(self.rest("primary"))[0] == 200

    def is_synchronous(self) -> bool:
        """Whether commits wait for this node."""
        return _http(self.rest("synchronous"))[0] == 200

    def switch_over(self) -> bool:
        """Let another node take the lead; return whether one did."""
        return _http(self.rest("switchover"), {"leader": self.title}, "POST", patience=40)[0] == 200

    def rest(self, what: str) -> str:
        """Return the address of something that Patroni tells, or does."""
        return f"http://{self.addresses.clients}:{self.base}/{what}"

    def ask(self, sql: str, patience: int = 5) -> list[Any]:
        with psycopg.connect(
            self.url, connect_timeout=2, autocommit=True, options=f"-c statement_timeout={patience}s"
        ) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def send(self, number: int) -> None:
        signal_all(self.folder, number)

    def kill(self) -> None:
        """SIGKILL to Patroni and to PostgreSQL, as if the machine died."""
        kill_all(self.folder)
        if self.process is not None:
            self.process.wait()

    def kill_server(self) -> None:
        """SIGKILL to PostgreSQL alone: Patroni sees it at once."""
        for process in self._of_server():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _of_server(self) -> list[int]:
        return processes_in(self.folder / "data")

    def isolate(self, is_isolated: bool) -> None:
        """Stop what sends to replicas; :meth:`mend` lets it continue with all else."""
        for process in self._of_server() if is_isolated else ():
            if b"walsender" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGSTOP)

    def stop(self) -> None:
        if self._held is not None:
            self.kill()
        super().stop()


class Cluster(NodesOfCluster[Node]):
    """Three nodes. Starts its processes in the thread that calls it, and they end with that one."""

    is_synchronous = True

    def __init__(self) -> None:
        super().__init__(Node)
        self.etcd = Etcd(self.wires.home)
        self.proxy = HAProxy(self.nodes)
        for server in (self.etcd, self.proxy):
            server.find()
        self._library: HeldFolder | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @classmethod
    def parts(cls) -> Sequence[Server]:
        return Etcd(""), HAProxy([]), Node(0, Loopback())

    @property
    def url(self) -> str:
        """The database of the leader, by way of HAProxy."""
        return self.proxy.url

    def start(self) -> None:
        """Start all of it, and make the database."""
        self.etcd.prepare()
        self.etcd.start()
        library = self._copied_library()
        for node in self.nodes:
            node.etcd, node.library = f"{self.etcd.address}:{self.etcd.port}", library
            node.prepare()
        self.proxy.prepare()
        self._guard = start_guard([server.folder for server in (self.etcd, self.proxy, *self.nodes)])
        for node in self.nodes:
            node.start()
            if node is self.nodes[0]:
                node.await_ready()
        self.await_size(NODES)
        self.proxy.start()
        self._make_database()

    def _copied_library(self) -> Library:
        """Copy Patroni to where the account of the servers can read it."""
        account, found = self.nodes[0].account, self.nodes[0].library
        self._library = HeldFolder("ddt-patroni-library-", Path(tempfile.gettempdir()))
        account.own(self._library.path)
        copied = shutil.copytree(found.folder, self._library.path / "library")
        copied.chmod(0o755)
        return Library(found.python, copied)

    def _make_database(self) -> None:
        def made() -> bool:
            with contextlib.suppress(psycopg.Error):
                url = self.url.removesuffix(DATABASE) + "postgres"
                with psycopg.connect(url, connect_timeout=3, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {DATABASE}".encode())
                    return True
            return False

        _await(made, self.nodes[0].log)

    def leader(self) -> Node | None:
        """The node that leads, if one does."""
        return next((node for node in self.nodes if node.is_leader()), None)

    def be_synchronous(self, is_synchronous: bool) -> None:
        """Have commits wait for a second node, or not."""
        self.is_synchronous = is_synchronous
        wanted = {"synchronous_mode": is_synchronous, "synchronous_mode_strict": is_synchronous}
        for node in self.nodes:
            if _http(node.rest("config"), wanted, "PATCH")[0] == 200:
                break
        _await(lambda: any(node.is_synchronous() for node in self.nodes) == is_synchronous, self.nodes[0].log)

    def restart(self) -> None:
        for node in self.nodes:
            if not node.is_alive:
                node.start()

    def await_size(self, size: int) -> None:
        """Wait until ``size`` nodes are members, and commits wait for one of them, if they are to."""
        super().await_size(size)
        if self.is_synchronous:
            _await(lambda: any(node.is_synchronous() for node in self.nodes), self.nodes[0].log)

    def stop(self) -> None:
        """End all of it and remove its data."""
        for server in (self.proxy, *self.nodes, self.etcd):
            server.stop()
        if self._library is not None:
            self._library.remove()
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
        self.wires.leave()


def _program(name: str, package: str) -> str:
    if not find_program([name]):
        install([package], "Patroni")
    program = find_program([name])
    if program is None:
        raise ServerError(f"{package} was installed, but {name} was not found.")
    return program


def _http(
    url: str, body: Mapping[str, Any] | None = None, method: str = "GET", patience: float = 2.0
) -> tuple[int, Mapping[str, Any]]:
    """The status and the JSON of an answer; status 0 if there is none."""
    request = Request(url, None if body is None else json.dumps(body).encode(), method=method)
    try:
        with urlopen(request, timeout=patience) as answer:
            status, text = answer.status, answer.read()
    except URLError as error:
        status, text = getattr(error, "code", 0), getattr(error, "read", bytes)()
    except OSError:
        return 0, {}
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    return status, found if isinstance(found, dict) else {}


def _await(predicate: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not predicate():
        if time.monotonic() > deadline:
            raise ServerError(f"not within {PATIENCE:g} s:\n{log.read_text(errors='replace')[-6000:]}")
        time.sleep(0.1)

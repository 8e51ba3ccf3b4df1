"""What the nodes of all clusters have in common: addresses of their own, being asked, dying."""

import contextlib
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from harness.servers.commands import Interrupted, catch_signals, run_command
from harness.servers.processes import ServerError
from harness.servers.server import DATABASE, PASSWORD, USER, Server, free_port
from harness.servers.wires import CLIENTS, Addresses, Loopback, Wires, wires_for

NODES = 3
JOIN_TIMEOUT = 180.0  # seconds
PATIENCE = 60.0  # seconds that the others may take to notice that a node is gone, or is back
OWN_TRIES = 30.0  # seconds that a node has to join by itself


class ClusterNode(Server):
    """One node. Its ports are its own for good: the others look for it there."""

    def __init__(self, number: int, wires: Wires) -> None:
        super().__init__()
        self.number = number
        self.wires = wires
        self.port, self.base = free_port(), free_port()

    @property
    def addresses(self) -> Addresses:
        return self.wires.addresses(self.number)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{USER}:{PASSWORD}@{self.addresses.clients}:{self.port}/{DATABASE}"

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether this node belongs to the part of the cluster that has the majority, and has all data."""

    @abstractmethod
    def size(self) -> int:
        """Return how many members the node sees, itself among them; 0 if it does not answer."""

    def await_ready(self) -> None:
        """Wait until the node is a member that serves; raise ServerError with its log if it never is."""
        began = time.monotonic()
        while not self.is_ready():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > began + JOIN_TIMEOUT:
                raise ServerError(f"node {self.number} is not ready:\n{self.log.read_text(errors='replace')[-6000:]}")
            if time.monotonic() > began + OWN_TRIES:
                self.join_again()
            time.sleep(0.1)

    def join_again(self) -> None:  # most never give up
        """Have a node join that has used up its own tries, as its operator would."""

    def ask(self, sql: str, patience: int = 5) -> list[Any]:
        """The answer of this node, on a connection of its own; an error after `patience` seconds without one."""
        import MySQLdb

        with contextlib.closing(
            MySQLdb.connect(
                host=self.addresses.clients, port=self.port, user=USER, passwd=PASSWORD, connect_timeout=2,
                read_timeout=patience, autocommit=True,
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

    def send(self, number: int) -> None:
        """Send a signal to all that the node consists of."""
        assert self.process is not None
        self.process.send_signal(number)

    def vanish(self) -> None:
        """Cut the node off from its peers and its clients; connections to it are not even refused.

        Where all nodes share an interface it is stopped instead, which looks the same from outside.
        """
        if isinstance(self.wires, Loopback):
            self.send(signal.SIGSTOP)
        else:
            self.wires.cut(self.number)
            self.wires.cut(self.number, CLIENTS)

    def cut(self) -> None:
        """Cut the node off from its peers. Its clients still reach it."""
        if isinstance(self.wires, Loopback):
            self.isolate(True)
        else:
            self.wires.cut(self.number)

    def mend(self) -> None:
        """Undo :meth:`cut` and :meth:`vanish`."""
        if isinstance(self.wires, Loopback):
            self.send(signal.SIGCONT)
            self.isolate(False)
        else:
            self.wires.mend(self.number)
            self.wires.mend(self.number, CLIENTS)

    @abstractmethod
    def isolate(self, is_isolated: bool) -> None:
        """Have the node itself leave the others, or join them, where all nodes share an interface."""


N = TypeVar("N", bound=ClusterNode)


class NodesOfCluster(ABC, Generic[N]):
    """The nodes. Their processes are started in the thread that calls, and end with that one.

    As a context manager it starts them, and stops them whatever happens.
    """

    def __init__(self, node: Callable[[int, Wires], N]) -> None:
        """Wire the nodes, which ``node`` makes.

        What they consist of is found or installed before that: nothing outside of this machine can be reached from the
        network that the calling thread then is in.
        """
        self.provide()
        self.wires = wires_for(NODES)
        self.nodes = [node(number, self.wires) for number in range(1, NODES + 1)]
        for one in self.nodes:
            one.find()

    @classmethod
    def provide(cls) -> None:
        """Find all that a cluster consists of, or install it; CannotBeHad says what there is not."""
        for part in cls.parts():
            part.find()

    @classmethod
    @abstractmethod
    def parts(cls) -> Sequence[Server]:
        """Return a server of each kind that a cluster consists of, wired to nothing."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start all nodes for the first time."""

    @abstractmethod
    def restart(self) -> None:
        """Start all nodes again after they were killed."""

    def await_gone(self) -> None:  # most take a node back at any time
        """Wait until a node that was killed can come back."""

    def await_size(self, size: int) -> None:
        """Wait until ``size`` nodes are ready and agree on that number."""
        began = time.monotonic()
        while [node.size() for node in self.nodes if node.is_ready()] != [size] * size:
            if time.monotonic() > began + OWN_TRIES + PATIENCE:
                raise ServerError(f"the cluster has not {size} nodes: {[node.size() for node in self.nodes]}")
            if time.monotonic() > began + OWN_TRIES:
                for node in self.nodes:
                    node.join_again()
            time.sleep(0.1)

    def stop(self) -> None:
        """End all nodes and remove their data."""
        for node in self.nodes:
            node.kill()
            node.stop()
        self.wires.leave()


def hold(prefix: str, cluster: Callable[[], NodesOfCluster[Any]], arguments: Sequence[str]) -> int:
    """Run a command with a cluster and the URLs of its nodes in its environment, or hold one until a signal comes."""
    catch_signals()
    try:
        with cluster() as running:
            urls: Mapping[str, str] = {
                f"DATABASE_URL_{prefix}": running.nodes[0].url,
                **{f"DATABASE_URL_{prefix}_{node.number}": node.url for node in running.nodes},
            }
            print(*(f"{name}={url}" for name, url in urls.items()), sep="\n", flush=True)
            if arguments:
                return run_command(arguments[arguments[0] == "--" :], urls, pass_on=signal.SIGTERM, grace=20.0)
            while True:
                signal.pause()
    except Interrupted as interrupted:
        return 128 + interrupted.signum
    except ServerError as error:
        print(error, file=sys.stderr, flush=True)
        return 1

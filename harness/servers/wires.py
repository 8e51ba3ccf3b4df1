"""How the nodes of a cluster reach each other, and how one of them is cut off.

As root on Linux each node gets a network namespace with two wires, one to its clients and one to its peers, and a wire
can be taken down. Namespaces are anonymous: they end with the processes in them, and nothing is left behind. Elsewhere
all nodes share the loopback interface, and the node itself is told to drop what it gets.
"""

import ctypes
import os
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.servers.packages import find_program, install
from harness.servers.processes import ServerError

CLONE_NEWNET = 0x40000000
CLIENTS, PEERS = "clients", "peers"
OWN = "10.83.3.1/24"
_NETS = {CLIENTS: "10.83.1", PEERS: "10.83.2"}
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Addresses:
    """The addresses on which one node listens."""

    clients: str
    peers: str


class Wires(ABC):
    """The network between the nodes, which are numbered from 1."""

    name: str
    home: str
    """The address at which nodes reach what is none of them."""

    @abstractmethod
    def addresses(self, node: int) -> Addresses:
        """Return the addresses on which this node is to listen."""

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """Children started inside live where the node lives."""
        yield

    def cut(self, node: int, wire: str = PEERS) -> None:
        """The node's peers (or clients) cannot be reached by it, nor it by them."""
        raise NotImplementedError

    def mend(self, node: int, wire: str = PEERS) -> None:
        """Undo :meth:`cut`."""
        raise NotImplementedError

    def leave(self) -> None:  # noqa: B027  # most have nowhere to leave
        """The calling thread is where it was before; nodes cannot be reached any more."""


class Loopback(Wires):
    """One interface for all: what `cut` is here, the cluster has to do by itself."""

    name = "loopback"
    home = "127.0.0.1"

    def addresses(self, node: int) -> Addresses:
        return Addresses("127.0.0.1", "127.0.0.1")


class Namespaces(Wires):
    """A namespace for each node, wired to this process's own, which is a new one too."""

    name = "network namespaces"
    home = f"{_NETS[CLIENTS]}.254"

    def __init__(self, nodes: int) -> None:
        """Enter a new namespace until :meth:`leave`: the calling thread, and what it starts from now on.

        Raises:
            ServerError: this is not permitted here.
        """
        provide_ip()
        self._outside = _present_namespace()
        _check(_libc.unshare(CLONE_NEWNET), "unshare")
        self._home = _present_namespace()
        try:
            self._build(nodes)
        except BaseException:
            self.leave()
            raise

    def _build(self, nodes: int) -> None:
        _ip("link set lo up")
        for bridge, net in _NETS.items():
            _ip(f"link add {bridge} type bridge")
            _ip(f"addr add {net}.254/24 dev {bridge}")
            _ip(f"link set {bridge} up")
        self._spaces = {node: _new_namespace() for node in range(1, nodes + 1)}
        for node in self._spaces:
            self._wire(node)

    def _wire(self, node: int) -> None:
        for bridge, net in _NETS.items():
            _ip(f"link add {bridge}{node} type veth peer name {bridge} netns {self._path(node)}")
            _ip(f"link set {bridge}{node} master {bridge} up")
            with self.inside(node):
                _ip(f"addr add {net}.{node}/24 dev {bridge}")
                _ip(f"link set {bridge} up")
        with self.inside(node):
            _ip("link set lo up")

    def _path(self, node: int) -> str:
        return f"/proc/{os.getpid()}/fd/{self._spaces[node]}"

    def addresses(self, node: int) -> Addresses:
        return Addresses(f"{_NETS[CLIENTS]}.{node}", f"{_NETS[PEERS]}.{node}")

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        _check(_libc.setns(self._spaces[node], CLONE_NEWNET), "setns")
        try:
            yield
        finally:
            _check(_libc.setns(self._home, CLONE_NEWNET), "setns")

    def cut(self, node: int, wire: str = PEERS) -> None:
        _ip(f"link set {wire}{node} down")

    def mend(self, node: int, wire: str = PEERS) -> None:
        _ip(f"link set {wire}{node} up")

    def leave(self) -> None:
        _check(_libc.setns(self._outside, CLONE_NEWNET), "setns")


def wires_for(nodes: int) -> Wires:
    """Namespaces where they are permitted, else loopback."""
    try:
        return Namespaces(nodes)
    except ServerError:
        return Loopback()


@contextmanager
def own_network() -> Iterator[None]:
    """Give children started inside a network with one address, which reaches nothing, and which nothing reaches.

    Raises:
        ServerError: this is not permitted here.
    """
    provide_ip()
    outside = _present_namespace()
    try:
        _check(_libc.unshare(CLONE_NEWNET), "unshare")
        try:
            for command in ("link set lo up", "link add own type bridge", f"addr add {OWN} dev own", "link set own up"):
                _ip(command)
            yield
        finally:
            _check(_libc.setns(outside, CLONE_NEWNET), "setns")
    finally:
        os.close(outside)


def provide_ip() -> None:
    """Find the program ip, or install it: from within a namespace that could not be done."""
    if find_program(["ip"]) is None:
        install(["iproute2"], "The program ip")


def _present_namespace() -> int:
    """A file descriptor that holds the network namespace of this thread."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _new_namespace() -> int:
    """A file descriptor that holds a new network namespace."""
    made: list[int] = []

    def make() -> None:
        if _libc.unshare(CLONE_NEWNET) == 0:
            made.append(_present_namespace())

    # Entering a namespace is a thread's own affair, and this thread ends at once.
    maker = threading.Thread(target=make)
    maker.start()
    maker.join()
    _check(0 if made else -1, "unshare")
    return made[0]


def _ip(arguments: str) -> None:
    program = find_program(["ip"])
    assert program is not None
    result = subprocess.run([program, *arguments.split()], capture_output=True, text=True, timeout=60)
    if result.returncode != 0:
        raise ServerError(f"ip {arguments}: {result.stderr.strip()}")


def _check(status: int, what: str) -> None:
    if status != 0:
        raise ServerError(f"{what}: {os.strerror(ctypes.get_errno())}")

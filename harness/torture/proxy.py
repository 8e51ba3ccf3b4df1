"""A TCP proxy between executors and the server, in a thread: loses the answers of COMMITs and silences heartbeats."""

import contextlib
import selectors
import socket
from dataclasses import dataclass, field
from threading import Thread
from urllib.parse import urlsplit

COMMIT = b"COMMIT"
HEARTBEAT = b"SET heartbeat_at ="
_CHUNK = 262_144


@dataclass(eq=False)
class Wire:
    """One connection. ``is_doomed``: the server's next word is its last, and is lost."""

    client: socket.socket
    server: socket.socket
    is_doomed: bool = False
    is_silent: bool = False
    held: list[bytes] = field(default_factory=list)


class Proxy:
    """Listens on a port of its own for connections to ``url``.

    Attributes:
        url: the same database, through the proxy.
        lost: how many answers were lost.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = parts.hostname or "127.0.0.1", parts.port or 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = int(self._listener.getsockname()[1])
        self.url = url.replace(f":{self._target[1]}/", f":{self.port}/")
        self.lost = 0
        self._to_lose = 0
        self._silencing = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._wires: set[Wire] = set()
        self._is_open = True
        self._thread = Thread(target=self._loop, name="proxy", daemon=True)
        self._thread.start()

    def lose_next(self, number: int = 1) -> None:
        """The answers of the next COMMITs are lost, and their connections with them."""
        self._to_lose = number

    def lose_none(self) -> None:
        """Pass on the answers to COMMITs from now on."""
        self._to_lose = 0

    def silence_heartbeats(self, silent: bool) -> None:
        """Pass on nothing more on a connection that sends a heartbeat, until this is called with False."""
        self._silencing = silent

    def close(self) -> None:
        """Cut every connection and end."""
        self._is_open = False
        self._thread.join(5)

    def _loop(self) -> None:
        while self._is_open:
            for key, _ in self._selector.select(0.05):
                if key.data is None:
                    self._accept()
                elif key.data in self._wires:
                    self._pass_on(key.data, key.fileobj)  # type: ignore[arg-type]
            if not self._silencing:
                self._let_speak()
        for wire in list(self._wires):
            self._cut(wire)
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, timeout=2)
        except OSError:
            client.close()
            return
        wire = Wire(client, server)
        for end in (client, server):
            end.settimeout(10)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(end, selectors.EVENT_READ, wire)
        self._wires.add(wire)

    def _pass_on(self, wire: Wire, end: socket.socket) -> None:
        try:
            data = end.recv(_CHUNK)
            if not data:
                self._cut(wire)
            elif end is wire.client:
                self._from_client(wire, data)
            elif wire.is_doomed:
                self.lost += 1
                self._cut(wire)
            else:
                wire.client.sendall(data)
        except OSError:
            self._cut(wire)

    def _from_client(self, wire: Wire, data: bytes) -> None:
        if self._silencing and (wire.is_silent or HEARTBEAT in data):
            wire.is_silent = True
            wire.held.append(data)
            return
        if self._to_lose > 0 and COMMIT in data:
            self._to_lose -= 1
            wire.is_doomed = True
        wire.server.sendall(data)

    def _let_speak(self) -> None:
        for wire in [wire for wire in self._wires if wire.is_silent]:
            wire.is_silent = False
            with contextlib.suppress(OSError):
                wire.server.sendall(b"".join(wire.held))
            wire.held.clear()

    def _cut(self, wire: Wire) -> None:
        if wire in self._wires:
            self._wires.remove(wire)
            for end in (wire.client, wire.server):
                self._selector.unregister(end)
                end.close()

"""A Redis server for the peers that need one: on a free port, without persistence."""

import contextlib
import signal
import socket
from collections.abc import Sequence

from harness.servers.packages import find_program, install
from harness.servers.processes import ServerError, choose_account
from harness.servers.server import Server


class Redis(Server):
    """Keeps nothing on disk, so what is measured with it is not durable."""

    name = "redis"
    scheme = "redis"
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def find(self) -> None:
        program = find_program(["redis-server"])
        if program is None:
            install(["redis-server"], "Redis")
            program = find_program(["redis-server"])
        if program is None:
            raise ServerError("Redis was installed, but redis-server was not found.")
        self.program = program
        self.account = choose_account("redis")

    def initialise(self) -> None:
        pass

    def command(self) -> Sequence[str]:
        words = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        return [self.program, *words, "--dir", str(self.folder)]

    def answers(self) -> bool:
        return self.ask("PING") == b"+PONG\r\n"

    def ask(self, command: str) -> bytes:
        """The answer to a command without arguments; empty when there is none."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(100)
        return b""

"""What all servers have in common: prepare the data, start, wait until it answers, stop."""

import contextlib
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from harness.servers.folders import HeldFolder
from harness.servers.processes import Account, ServerError, start_as

USER = "ddt"
PASSWORD = "ddt"
DATABASE = "ddt"
MAX_CONNECTIONS = 300
START_TIMEOUT = 90.0  # seconds
STOP_TIMEOUT = 20.0  # seconds
START_ATTEMPTS = 3  # another process may take the free port first


def free_port() -> int:
    """Return a loopback port on which no process listens at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(ABC):
    """One database server with its data in a temporary folder."""

    name: str
    scheme: str
    root: Path | None = None  # the folder that the server sees as /
    character_set = "utf8mb4"  # the default of server and database, on MariaDB and MySQL
    stop_signal: int

    def __init__(self, durable: bool = True) -> None:
        self.durable = durable  # whether what is committed outlives the machine, and not the server's process alone
        self.account: Account
        self._held: HeldFolder | None = None
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def find(self) -> None:
        """Find the programs, or install them; ServerError when they cannot be had."""

    @abstractmethod
    def initialise(self) -> None:
        """Write an empty cluster into `self.folder`."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that starts the server on `self.port`."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server takes connections; called until it does."""

    @property
    def folder(self) -> Path:
        assert self._held is not None, "prepare() makes the folder"
        return self._held.path

    @property
    def url(self) -> str:
        return f"{self.scheme}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def inside(self, path: Path) -> str:
        """`path` as the server sees it."""
        return str(path if self.root is None else Path("/") / path.relative_to(self.root))

    def prepare(self) -> None:
        """Make the folder and the data."""
        parent = Path(tempfile.gettempdir()) if self.root is None else self.root / "tmp"
        self._held = HeldFolder(f"ddt-{self.name}-", parent)
        self.account.own(self.folder)
        self.initialise()

    def start(self) -> None:
        """Start the server and return when it answers; ServerError with its log when it does not."""
        for _ in range(START_ATTEMPTS):
            self.port = free_port()
            self.process = start_as(self.account, self.command(), self.folder, self.log, root=self.root)
            if self._wait():
                return
        raise ServerError(f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-4000:]}")

    def _wait(self) -> bool:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT
        while self.process.poll() is None and time.monotonic() < deadline:
            if self.answers():
                return True
            time.sleep(0.05)
        self._end()
        return False

    def stop(self) -> None:
        """Stop the server and remove its data; safe to call in any state."""
        self._end()
        if self._held is not None:
            self._held.remove()
            self._held = None

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(self.stop_signal)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

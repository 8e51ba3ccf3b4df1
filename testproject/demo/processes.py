"""The two processes of the demonstration: the shop's web server and the executor."""

import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

FOLDER = Path(__file__).resolve().parent.parent
ROOT = FOLDER.parent

STARTING = 30.0
STOPPING = 30.0
ENDING = 60.0


class ProcessFailed(Exception):
    """A process ended by itself, did not come up in time, or did not end in an orderly way."""


class PythonProcess:
    """A Python process whose output goes to a file; ended with SIGTERM when the ``with`` block is left.

    Attributes:
        exit_code: how it ended; None while it runs.
    """

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        self.log = FOLDER / f"demo-{name}.log"
        self.exit_code: int | None = None

    def __enter__(self) -> "PythonProcess":
        # A session of its own: Ctrl-C on the terminal is for the demonstration, which then ends this process.
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", *self.arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def output_at_end(self) -> str:
        """Return all that it printed, when it has ended by itself; raise ProcessFailed if it did not end well."""
        try:
            code = self.process.wait(ENDING)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{self.name} does not end:\n{self.last_lines()}") from None
        if code:
            raise ProcessFailed(f"{self.name} ended with exit code {code}:\n{self.last_lines()}")
        return self.log.read_text()

    def end(self) -> None:
        """SIGTERM, and SIGKILL when that does not help in time."""
        self.process.terminate()
        try:
            self.exit_code = self.process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.exit_code = self.process.wait()

    def check(self) -> None:
        """ProcessFailed, with the end of its log, when it runs no longer."""
        if self.process.poll() is not None:
            code = self.process.returncode
            raise ProcessFailed(f"{self.name} ended with exit code {code}:\n{self.last_lines()}")

    def wait_for(self, pattern: str) -> str:
        """The first group of the pattern, as soon as the output has it."""
        deadline = time.monotonic() + STARTING
        while not (match := re.search(pattern, self.log.read_text())):
            self.check()
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} did not come up in {STARTING:.0f} s:\n{self.last_lines()}")
            time.sleep(0.05)
        return match[1]

    def last_lines(self, count: int = 30) -> str:
        return "\n".join(self.log.read_text().splitlines()[-count:])


def web_server() -> PythonProcess:
    """The shop on a free port of the loopback interface."""
    return PythonProcess("server", "-m", "testproject.demo.server")


def executor() -> PythonProcess:
    """``manage.py starttask``."""
    return PythonProcess("executor", str(FOLDER / "manage.py"), "starttask", "--name", "demo")

"""One child process with its output in a file."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import ROOT
from harness.servers.processes import die_with_parent

PATIENCE = 90.0


class Child:
    """``[prefix …] python …``; it is killed when the thread that started it ends, however that comes about."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path, prefix: Sequence[str] = ()
    ) -> None:
        self.log = log
        self.began = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, *arguments],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(9),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def has_said(self, text: str) -> bool:
        """Whether its output contains ``text``."""
        return text in self.output

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Wait until its output contains ``text``.

        Raises:
            ChildError: it ended before, or did not say so in time.
        """
        deadline = time.monotonic() + patience
        while not self.has_said(text):
            if self.process.poll() is not None and not self.has_said(text):
                raise ChildError(f"ended with {self.process.returncode} before {text!r}:\n{self.output[-3000:]}")
            if time.monotonic() > deadline:
                raise ChildError(f"{text!r} is missing after {patience:g} s in:\n{self.output[-3000:]}")
            time.sleep(0.02)

    def exit_code(self, patience: float = PATIENCE) -> int | None:
        """Return how it ended (negative: by that signal); None if it has not in time."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()


class ChildError(Exception):
    """A child process did not do what is expected of it; the message has the end of its output."""

"""Real processes under test. Whatever they start is found and ended with them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.db import transaction

from django_delayed_tasks.models import Task
from harness import ROOT
from harness.servers.processes import die_with_parent
from tests.processes.waiting import PATIENCE, wait_until


class Child:
    """A Python process whose output goes to a file; its input is a pipe of the test."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path, output: int | None) -> None:
        self.arguments = list(arguments)
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", *arguments],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=file if output is None else output,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until the output contains ``text``; raise AssertionError if the process ends first."""

        def shows() -> bool:
            has_ended = self.process.poll() is not None
            if self.output.count(text) >= times:
                return True
            assert not has_ended, f"ended with {self.process.returncode} before {text!r}:\n{self.output}"
            return False

        wait_until(shows, what=lambda: f"{text!r} is missing in:\n{self.output}")

    def wait_until_ready(self) -> "Child":
        """Wait until its executor is registered."""
        self.wait_for("Ready (executor")
        return self

    def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def send(self, number: int) -> None:
        """A signal."""
        self.process.send_signal(number)

    def pause(self) -> None:
        """Stop all of its threads by SIGSTOP, while it writes nothing to SQLite.

        A process that stands still during a write keeps SQLite's only write lock, so that no other process can write.
        """
        with transaction.atomic():
            Task._base_manager.filter(pk=-1).delete()
            self.send(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def exit_code(self, timeout: float = PATIENCE) -> int:
        """Return how it ended (negative: by that signal); raise AssertionError with its output if it is late."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:g} s:\n{self.output}") from None

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

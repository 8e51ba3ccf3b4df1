"""One step of the suite: a process of pytest on one database, or a target of ``make``."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.servers.commands import start_command, status_of
from harness.suite.parts import SELECTION

TESTS_FAILED = 1  # pytest's exit code; others say that pytest itself could not go through


@dataclass
class Step:
    """A process, and what came of it.

    Attributes:
        name: what a person calls it.
        command: the program and its arguments.
        database: the one that it uses; None for one that starts what it needs.
        environment: what it has in its environment besides that of this process.
        folder: where its output is kept until it ends; without one the terminal shows it.
        is_alone: it measures a whole server, so that no other step may use that at the same time; without a database,
            the whole machine, so that it runs after all others.
        expected: the seconds that it takes, about; the longest begins first.
    """

    name: str
    command: Sequence[str]
    database: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    is_alone: bool = False
    expected: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    cpu: float = 0.0
    status: int = -1
    flaky: Sequence[str] = ()

    @property
    def title(self) -> str:
        return f"{self.database}: {self.name}" if self.database else self.name

    @property
    def output(self) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.name}.txt"

    @property
    def is_tests(self) -> bool:
        """Whether pytest notes which of its tests fail."""
        return "pytest" in self.command

    def start(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start the process, with the addresses of the servers in `environment`."""
        self.began = time.monotonic()
        # Children begin sooner with modules that are compiled already.
        extra = {**environment, **self.environment, "PYTHONDONTWRITEBYTECODE": ""}
        if self.database:
            extra["DDT_DATABASE"] = self.database
        # SIGINT, since pytest cleans up after that one only.
        if self.folder is None:
            return start_command(self.command, extra, pass_on=signal.SIGINT)
        self.folder.mkdir(exist_ok=True)
        with self.output.open("wb") as output:
            return start_command(self.command, extra, pass_on=signal.SIGINT, output=output.fileno())

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Take the result, and show the output where the terminal has not."""
        before = cpu_of_children()
        self.status = status_of(process)
        self.cpu = cpu_of_children() - before
        self.seconds = time.monotonic() - self.began
        if self.folder:
            took = f"{self.seconds:.0f} s, {self.cpu:.0f} CPU s"
            print(f"\n--- {self.title}: {took} ---\n{self.text()}", flush=True)

    def text(self) -> str:
        """Return its output so far."""
        return self.output.read_text(errors="replace").rstrip() if self.folder else ""

    def failed(self) -> list[str]:
        """The ids of the tests whose last run failed, as the step's own cache of pytest has them."""
        if self.folder is None:
            return []
        last_failed = self.folder / "cache/v/cache/lastfailed"
        return sorted(json.loads(last_failed.read_text())) if last_failed.exists() else []

    def again(self) -> "Step":
        """The step to run once more after it has failed: of tests only those that failed."""
        more = ["--last-failed", "--last-failed-no-failures=none"] if self.is_tests else []
        return Step(
            f"{self.name}, again", [*self.command, *more], self.database, self.environment, self.folder, self.is_alone
        )

    def closing_line(self) -> str:
        """The last line of its output, such as pytest's own summary."""
        return self.text().rpartition("\n")[2].strip("= ")


def tests(name: str, database: str, paths: Sequence[str], folder: Path, selection: str, expected: float) -> Step:
    """A step that runs the tests of a `SELECTION` in these files."""
    place = folder / f"{database}-{name}"
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={place / 'cache'}", "--durations=15", *paths]
    return Step(name, command, database, {SELECTION: selection}, place, expected=expected)


def target(name: str, *variables: str, folder: Path, expected: float, is_alone: bool = False) -> Step:
    """A step that makes a target of the Makefile."""
    command = ["make", "--no-print-directory", name, *variables]
    return Step(f"make {name}", command, folder=folder / name, is_alone=is_alone, expected=expected)


def cpu_of_children() -> float:
    """CPU seconds of the child processes that have ended so far, with theirs."""
    used = os.times()
    return used.children_user + used.children_system


def table(steps: Sequence[Step]) -> str:
    """Return a table with a line per step, and the flaky ones by name."""
    lines = ["", f"{'database':<10} {'step':<18} {'result':<8} {'from':>6} {'seconds':>8} {'CPU':>8}"]
    first = min((step.began for step in steps), default=0.0)
    for step in steps:
        verdict = "passed" if step.status == 0 else f"exit {step.status}"
        times = f"{step.began - first:>6.0f} {step.seconds:>8.1f} {step.cpu:>8.1f}"
        lines.append(f"{step.database or '':<10} {step.name:<18} {verdict:<8} {times}  {step.closing_line()}".rstrip())
    flaky = [f"{step.database or '':<10} {name}" for step in steps for name in step.flaky]
    return "\n".join([*lines, *(["", "flaky (failed, then passed alone):", *flaky] if flaky else [])])

"""Run steps side by side, on servers that start meanwhile; run once more, alone, what has failed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.servers.commands import Interrupted, end_commands, start_command
from harness.suite.steps import TESTS_FAILED, Step

AT_ONCE = 6
"""Steps that run at the same time, on two cores: many tests wait more than they compute."""
GRACE = 20.0  # seconds that a step has to clean up when this process is interrupted
LOOK_EVERY = 0.1  # seconds


class HeldServer:
    """A database server that starts in a process of its own, and is there until that is told to end."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.output = folder / f"server-{name}.txt"
        command = [sys.executable, "-m", "harness.servers", "--databases", name, "--volatile", "--hold"]
        with self.output.open("wb") as output:
            self.process = start_command(command, {}, pass_on=signal.SIGTERM, output=output.fileno())

    def text(self) -> str:
        """Return what it has printed."""
        return self.output.read_text(errors="replace")

    def url(self) -> str | None:
        """Return its address; None while it is starting."""
        start = f"{self.name}="
        lines = [line for line in self.text().splitlines(keepends=True) if line.startswith(start) and line[-1] == "\n"]
        return lines[0].removeprefix(start).strip() if lines else None

    def why(self) -> str:
        """Return what it has said of its end: all after what it was doing until then."""
        return self.text().rpartition("harness.servers: ")[2].strip()

    def has_ended(self) -> bool:
        """Return whether it could not be had, or is gone."""
        return self.process.poll() is not None


def missed_servers(servers: Mapping[str, HeldServer], optional: Collection[str]) -> list[str]:
    """Say which servers are gone; return those that fail the run: one that was there may not go, optional or not."""
    missed = []
    for name, server in servers.items():
        if server.has_ended():
            was_there = bool(server.url())
            print(f"{name} {'is gone in mid-run' if was_there else 'could not be had'}:\n{server.text()}")
            missed += [name] if was_there or name not in optional else []
    return missed


@contextmanager
def held_servers(databases: Collection[str]) -> Iterator[Mapping[str, HeldServer]]:
    """Start a server for each of the databases that need one."""
    with tempfile.TemporaryDirectory(prefix="ddt-servers-") as folder:
        servers: dict[str, HeldServer] = {}
        try:
            for name in databases:
                if name != "sqlite":
                    servers[name] = HeldServer(name, Path(folder))
            yield servers
        finally:
            for server in servers.values():
                server.process.terminate()
            for server in servers.values():
                server.process.wait()


class Runner:
    """Runs steps, at most `at_once` at a time; `ended` has those that have run: not those whose server is not there."""

    def __init__(self, steps: Sequence[Step], servers: Mapping[str, HeldServer], at_once: int = AT_ONCE) -> None:
        self.waiting = sorted(steps, key=lambda step: (not step.is_alone, -step.expected))
        self.servers = servers
        self.at_once = at_once
        self.running: list[tuple[Step, subprocess.Popen[bytes]]] = []
        self.ended: list[Step] = []

    def run(self) -> None:
        """Run them all."""
        try:
            while self.waiting or self.running:
                self._drop_those_without_server()
                self._start_some()
                time.sleep(LOOK_EVERY)
                self._end_some()
        except Interrupted as interrupted:
            end_commands([process for _, process in self.running], interrupted, pass_on=signal.SIGINT, grace=GRACE)
            for step, process in self.running:
                step.end(process)
            raise

    def _start_some(self) -> None:
        while len(self.running) < self.at_once:
            step = next((step for step in self.waiting if self._may_start(step)), None)
            if step is None:
                return
            self.waiting.remove(step)
            self.running.append((step, step.start(self._addresses())))

    def _may_start(self, step: Step) -> bool:
        """Return whether its server answers, and no step is in its way."""
        if (server := self.servers.get(step.database or "")) and not server.url():
            return False
        if step.is_alone and step.database is None:
            return not self.running and all(other.is_alone and other.database is None for other in self.waiting)
        here = [other for other, _ in self.running if other.database == step.database is not None]
        if step.is_alone:
            return not here
        waiting_alone = any(other.is_alone and other.database == step.database is not None for other in self.waiting)
        return not waiting_alone and not any(other.is_alone for other in here)

    def _end_some(self) -> None:
        for step, process in list(self.running):
            if _has_ended(process):
                self.running.remove((step, process))
                step.end(process)
                self.ended.append(step)

    def _drop_those_without_server(self) -> None:
        gone = {name for name, server in self.servers.items() if server.has_ended()}
        self.waiting = [step for step in self.waiting if step.database not in gone]

    def _addresses(self) -> Mapping[str, str]:
        urls = {f"DATABASE_URL_{name.upper()}": server.url() for name, server in self.servers.items()}
        return {name: url for name, url in urls.items() if url}


def run_failed_again(steps: Sequence[Step], servers: Mapping[str, HeldServer]) -> None:
    """Run what failed once more, one step at a time; what passes then has passed, and is named as flaky."""
    for step in steps:
        if step.status == 0 or (step.is_tests and (step.status != TESTS_FAILED or not step.failed())):
            continue
        failed = step.failed() if step.is_tests else [step.name]
        again = step.again()
        Runner([again], servers).run()
        still = step.failed() if step.is_tests else [step.name] * (again.status != 0)
        step.flaky = sorted(set(failed) - set(still))
        step.status = again.status


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether it has, and leave it to be waited for: what it used is counted then."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

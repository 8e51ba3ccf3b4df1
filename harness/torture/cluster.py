"""The executors: started, killed, stopped, and started again when they have died, as a service manager would."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django_delayed_tasks.executor.process.foreground import RESTART
from harness.processes_of_folder import VARIABLE, kill_all
from harness.torture import hooks
from harness.torture.child import Child, ChildError
from harness.torture.codes import HANDLERS, paths_of
from harness.torture.databases import Database

FAST: Mapping[str, Any] = {
    "POLL_INTERVAL": 0.1, "THREADS": 4, "HEARTBEAT": 0.6, "LEASE": 3, "SHUTDOWN_TIMEOUT": 20, "MAX_RESCUES": 1000,
}  # fmt: skip
"""The settings of every executor, unless a scenario changes them. Hundreds of kills must not use up the rescues."""


class Executor:
    """One ``manage.py starttask`` (with ``--processes N``: a supervisor and its executors)."""

    def __init__(self, child: Child, name: str, folder: Path, url: str, is_supervisor: bool) -> None:
        self.child = child
        self.name = name
        self.url = url
        self.is_supervisor = is_supervisor
        self.is_stopped = False
        self.is_ending = False
        self._folder = folder

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def is_alive(self) -> bool:
        return self.child.process.poll() is None

    def wait_until_ready(self) -> "Executor":
        """Wait until it is registered."""
        self.child.wait_for("Supervising" if self.is_supervisor else "Ready (executor")
        return self

    def send(self, number: int) -> None:
        """A signal; SIGSTOP and SIGCONT are remembered."""
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.is_stopped = number == signal.SIGSTOP
        self.is_ending = self.is_ending or number in (signal.SIGTERM, signal.SIGINT)
        with contextlib.suppress(ProcessLookupError):
            self.child.process.send_signal(number)

    def ask(self, what: str) -> Path:
        """Hold it at one of the places in ``hooks``; removing the file takes that back."""
        path = hooks.flag(self._folder, what, self.name)
        path.touch()
        return path

    def has_paused(self) -> bool:
        """Whether it has really been stopped: by us, or by itself at one of the places in ``hooks``."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False


class Cluster:
    """All executors of one world, by name. Use it in the main thread only: a child ends with the thread it is from."""

    def __init__(self, database: Database, folder: Path, settings: Mapping[str, Any], bug: str = "") -> None:
        self._database = database
        self._folder = folder
        self._settings = settings
        self._bug = bug
        self._number = 0
        self._keeping: dict[str, dict[str, Any]] = {}
        self.executors: dict[str, Executor] = {}

    def start(
        self,
        name: str,
        *options: str,
        url: str | None = None,
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        command: tuple[str, ...] = (),
        keep: bool = True,
    ) -> Executor:
        """Start ``starttask --name NAME *options``, at this URL of the database (default: one of its own in turn).

        ``command`` goes before ``python`` (``("faketime", "+10m")``); ``settings`` over the scenario's; with ``keep``
        it is started again by :meth:`tend` if it dies.
        """
        given = {"url": url, "environment": environment, "settings": settings, "command": command}
        urls = self._database.urls
        url = url or urls[self._number % len(urls)]
        self._number += 1
        child = Child(
            ["-m", "django", "starttask", "--skip-checks", "--name", name, *options],
            self._environment(name, url, settings, environment),
            self._folder / f"executor-{self._number}-{name}.log",
            prefix=command,
        )
        is_supervisor = any(option.startswith("--processes") for option in options)
        self.executors[name] = executor = Executor(child, name, self._folder, url, is_supervisor)
        if keep:
            self._keeping[name] = {"options": options, **given}
        return executor

    def _environment(
        self, name: str, url: str, settings: Mapping[str, Any] | None, extra: Mapping[str, str] | None
    ) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "harness.torture.settings",
            "DDT_DELAYED_TASKS": json.dumps({**FAST, **self._settings, **(settings or {})}),
            VARIABLE: str(self._folder),
            hooks.FOLDER: str(self._folder),
            hooks.NAME: name,
            "DDT_TORTURE_BUG": self._bug,
            "DDT_TORTURE_HANDLERS": json.dumps(paths_of(HANDLERS)),
            "PYTHONWARNINGS": "ignore",
            **self._database.environment(url),
            **(extra or {}),
        }

    def start_many(self, number: int, *options: str, **given: Any) -> list[Executor]:
        """``e1`` to ``eN``, and wait until all are registered."""
        started = [self.start(f"e{one}", *options, **given) for one in range(1, number + 1)]
        return [executor.wait_until_ready() for executor in started]

    def living(self) -> list[Executor]:
        """Return the executors that are alive and not stopped, in the order of their names."""
        chosen = [one for one in self.executors.values() if one.is_alive and not one.is_stopped and not one.is_ending]
        return sorted(chosen, key=lambda one: one.name)

    def tend(self) -> int:
        """Start those again that are to be kept and have died; how many."""
        dead = [name for name in self._keeping if not self.executors[name].is_alive]
        for name in dead:
            kept = dict(self._keeping[name])
            self.start(name, *kept.pop("options"), **kept)
        return len(dead)

    def forget(self, name: str) -> None:
        """Do not start this one again."""
        self._keeping.pop(name, None)

    def resume(self) -> None:
        """SIGCONT to all that are stopped, and take back every request to hold one."""
        for path in self._folder.glob("*-*"):
            if path.name.startswith((hooks.STOP_BEFORE_CLAIM, hooks.STOP_BEFORE_SETTLE, hooks.BLOCK_HEARTBEAT)):
                path.unlink(missing_ok=True)
        for executor in self.executors.values():
            if executor.is_alive and (executor.is_stopped or executor.has_paused()):
                executor.send(signal.SIGCONT)

    def end(self, patience: float = 150.0) -> list[str]:
        """SIGTERM to all; which of them did not end well within ``patience`` seconds (they are killed then)."""
        self._keeping.clear()
        self.resume()
        unready = {executor.name for executor in self.executors.values() if not self._is_ready(executor)}
        living = [one for one in self.executors.values() if one.is_alive]
        for executor in living:
            if not executor.is_ending:  # a second signal would end it at once
                executor.send(signal.SIGTERM)
        deadline = time.monotonic() + patience
        codes = {one.name: one.child.exit_code(max(0.1, deadline - time.monotonic())) for one in living}
        self.kill()
        well = (0, RESTART)
        bad = {name: code for name, code in codes.items() if code not in well}
        # One that has not registered (its server is away) has nothing to stop gracefully.
        return [
            f"{name} ({code}: {self.executors[name].child.output[-1000:]})"
            for name, code in bad.items()
            if name not in unready or code != -signal.SIGTERM
        ]

    def _is_ready(self, executor: Executor) -> bool:
        try:
            executor.wait_until_ready()
        except ChildError:
            return False
        return True

    def kill(self) -> None:
        """End them, whatever they do."""
        self._keeping.clear()
        for executor in self.executors.values():
            executor.child.close()
        kill_all(self._folder)

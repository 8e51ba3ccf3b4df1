"""The supervisor starts several executors as processes and restarts those that crash."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from django_delayed_tasks import clock
from django_delayed_tasks.executor.process.foreground import RESTART, StopSignals
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

HEALTHY_AFTER = 60.0
"""Seconds that a process must live for its crash to count as the first of a new series, and that it may not answer."""

FINISHED = 80
"""Exit code of a child that has ended as it was to end. A handler may end its process by 0, as by ``os._exit(0)``."""
ENDED_WELL = (FINISHED, -signal.SIGTERM, RESTART)
"""Exit codes of a child that left no run behind: -SIGTERM if it was not ready yet; RESTART if it was to end anyway."""


@dataclass(slots=True)
class Child:
    """One executor process and the crashes of its predecessors; ``variables`` are added to its environment."""

    number: int
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    crashes: int = 0
    not_before: float = 0.0
    is_done: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    def pause(self) -> float:
        """Return the seconds before it is restarted: none after a first crash, then growing up to 30."""
        return 0.0 if self.crashes <= 1 else min(30.0, 0.5 * 2.0**self.crashes)


class Supervisor:
    """Keeps several executor processes alive.

    ``command`` starts one executor; ``--name NAME-n`` is appended to it for child number *n*. A child that ends with
    another code than :data:`FINISHED` is started again.
    """

    def __init__(self, command: Sequence[str], name: str, processes: int, shutdown_timeout: float) -> None:
        self._command = list(command)
        self._name = name
        self._patience = shutdown_timeout + 5.0
        self._turned = clock.monotonic()
        self.children = [Child(number) for number in range(1, processes + 1)]

    @property
    def is_responsive(self) -> bool:
        """Whether it has looked after its children in the last minute."""
        return clock.monotonic() - self._turned < 60.0

    def name_of(self, child: Child) -> str:
        """Return the name of the executor that a child is."""
        return f"{self._name}-{child.number}"

    def run(self, signals: StopSignals) -> int:
        """Run until a signal comes or every child has ended well; return the exit code."""
        while not signals.wait():
            self._turned = clock.monotonic()
            for child in self.children:
                if signals.wait(0):
                    return self._end()
                self._look_after(child)
            if all(child.is_done for child in self.children):
                return 0
        return self._end()

    def _look_after(self, child: Child) -> None:
        if child.is_done:
            return
        if child.process is None:
            if clock.monotonic() >= child.not_before:
                self._start(child)
        elif (code := child.process.poll()) is not None:
            self._ended(child, code)

    def _start(self, child: Child) -> None:
        command = [*self._command, "--name", self.name_of(child)]
        child.started = clock.monotonic()
        try:
            # In a group of its own, or Ctrl-C in a terminal would signal the children as well as the supervisor.
            child.process = subprocess.Popen(command, start_new_session=True, env=_environment() | child.variables)
        except OSError as error:  # no memory or too many processes: it may succeed later
            self._crashed(child, f"could not be started: {error}")

    def _ended(self, child: Child, code: int) -> None:
        child.process = None
        if code == FINISHED:
            child.is_done = True
        else:
            self._crashed(child, f"ended with {code}")

    def _crashed(self, child: Child, how: str) -> None:
        lived = clock.monotonic() - child.started
        child.crashes = child.crashes + 1 if lived < HEALTHY_AFTER else 1
        pause = child.pause()
        child.not_before = clock.monotonic() + pause
        soon = f" in {pause:g} s" if pause else ""
        logger.error("executor %s %s; it is started again%s", self.name_of(child), how, soon)

    def _end(self) -> int:
        # A child that has crashed just now was not told to end: it says nothing about how the others end.
        running = [child.process for child in self.children if child.process and child.process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = clock.monotonic() + self._patience
        codes = [self._wait(process, deadline) for process in running]
        return 0 if all(code in ENDED_WELL for code in codes) else 1

    def _wait(self, process: "subprocess.Popen[bytes]", deadline: float) -> int:
        try:
            return process.wait(max(0.1, deadline - clock.monotonic()))
        except subprocess.TimeoutExpired:
            logger.error("process %d does not end; it is killed", process.pid)
            process.kill()
            return process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, PARENT: str(os.getpid())}


PARENT = "DJANGO_DELAYED_TASKS_SUPERVISOR"
"""The environment variable that holds the process id of a child's supervisor."""


def is_supervised() -> bool:
    """Return whether a supervisor has started this command, perhaps through a launcher between the two."""
    return PARENT in os.environ


def end_with_parent() -> None:
    """Arrange for this child to get SIGINT when its supervisor dies, where the kernel offers it (Linux).

    It is SIGINT because the supervisor sends SIGTERM: this signal must not be ignored as a repetition of that one.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    import ctypes

    set_parent_death_signal = 1  # PR_SET_PDEATHSIG, prctl(2)
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGINT)
    if str(os.getppid()) != parent:
        os.kill(os.getpid(), signal.SIGINT)

"""This process's lease: its row, how long its claims can be trusted, and what it is called now.

What can be trusted is told by the monotonic clock, counted from the *start* of the last renewal that succeeded: the
database counts from later, so this process doubts its claims before anybody may take them.
"""

import os
import socket
from datetime import timedelta
from pathlib import Path

from django_delayed_tasks import clock
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.leases.acquiring import refuse_in_transaction
from django_delayed_tasks.store import executors

TRUSTED_PART = 2 / 3
REFUSED = "an executor cannot be started"
_here: dict[str, "Lease"] = {}
"""Who has which name in this process."""


class Lease:
    """The registration of one executor, renewed by the heartbeat."""

    def __init__(self, options: ExecutorOptions) -> None:
        self._options = options
        self._alias = options.database
        self._length = timedelta(seconds=options.lease)
        self._trusted_until = float("-inf")
        self._failing = True
        self.executor = 0

    def acquire(self) -> None:
        """Register under a fresh id.

        Raises:
            NameInUse: another live process has the name.
            TaskException: a transaction is open in this thread, or autocommit is off.
        """
        refuse_in_transaction(self._alias, REFUSED)
        begun = clock.monotonic()
        self.executor = executors.register(self._alias, self._identity(), self._length, self._is_predecessor_gone)
        _here[self._options.name] = self
        self._renewed(begun)

    def _is_predecessor_gone(self, host: str, pid: int) -> bool:
        # A row of our own that we know nothing of is one whose answer was lost.
        is_another_here = _here.get(self._options.name, self) is not self
        return is_gone(host, pid) and not (pid == os.getpid() and is_another_here)

    def renew(self) -> bool:
        """Renew; False when this executor was declared dead and must :meth:`acquire` anew."""
        begun = clock.monotonic()
        try:
            is_ours = executors.renew(self._alias, self.executor, self._length)
        except BaseException:
            self._failing = True
            raise
        if is_ours:
            self._renewed(begun)
        else:
            self._trusted_until = float("-inf")
        return is_ours

    def end(self) -> None:
        """Give the lease back."""
        self._trusted_until = float("-inf")
        if _here.get(self._options.name) is self:
            del _here[self._options.name]
        executors.retire(self._alias, self.executor)

    def _renewed(self, begun: float) -> None:
        self._trusted_until = begun + self._options.lease * TRUSTED_PART
        self._failing = False

    @property
    def is_trusted(self) -> bool:
        """Whether claims made under this lease can still be ours: only then is anything started."""
        return clock.monotonic() < self._trusted_until

    @property
    def may_claim(self) -> bool:
        """Whether new claims may be made: never while a renewal fails."""
        return not self._failing and self.is_trusted

    def _identity(self) -> executors.Identity:
        options = self._options
        return executors.Identity(
            options.name,
            machine(),
            os.getpid(),
            options.threads,
            tuple(get_task_handlers()),
            options.queues,
        )


def machine() -> str:
    """Where this process's number means something: the host and, on Linux, its boot and PID namespace.

    Two containers may have the same host name, and the same process numbers for other processes.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} ({boot}-{namespace})"


def is_gone(host: str, pid: int) -> bool:
    """Whether that process has certainly ended: it was on this machine, and its number is free or our own."""
    if host != machine():
        return False
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    # An ended process whose parent has not asked for its exit code yet; only Linux tells.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False

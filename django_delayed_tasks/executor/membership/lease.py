"""The lease of an executor, and the heartbeat that renews it: how long the claims made under it can be trusted.

Trust is measured by the monotonic clock from the *start* of the last successful renewal. The database counts from a
later moment, so this process stops trusting its claims before another executor may take them.
"""

import os
import socket
from datetime import timedelta
from pathlib import Path
from threading import Event

from django.db import DatabaseError, connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.leases.acquiring import refuse_in_transaction
from django_delayed_tasks.leases.lease import TRUSTED_PART
from django_delayed_tasks.states import ExecutorStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.sql.kept_connections import Access, access_to
from django_delayed_tasks.store.sql.transactions import discard_after
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

NEVER = float("-inf")
REFUSED = "an executor cannot be started"
_here: dict[str, "Lease"] = {}
"""The leases that this process holds, by the names of their executors."""


class Lease:
    """The registration of one executor, which the heartbeat renews.

    Attributes:
        executor: the current id.
        trusted_until: the monotonic second until which claims made under this lease are certainly still held: only
            before it is a run started.
        claims_until: the monotonic second until which new claims may be made: the same, but none are made while
            renewals fail, nor once the executor stops.
        has_news: set when the row should be renewed at once, because the executor does something else.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self._options = options
        self._alias = options.database
        self._length = timedelta(seconds=options.lease)
        self._status = ExecutorStatus.RUNNING
        self.executor = 0
        self.trusted_until = self.claims_until = NEVER
        self.has_news = Event()
        self._refused_at: float | None = None
        self._codes: frozenset[str] = frozenset()
        self._longest_gap = min(2 * options.heartbeat, options.lease - options.heartbeat)
        self._renewed_at = self._steady_from = NEVER

    def acquire(self) -> None:
        """Register under a new id.

        Raises:
            NameInUse: another live process has the name.
            TaskException: a transaction is open in this thread, or autocommit is off.
        """
        refuse_in_transaction(self._alias, REFUSED)
        begun = clock.monotonic()
        registration = self._registration()
        self.executor = executors.register(self._alias, registration, self._length, self._is_predecessor_gone)
        self._codes = frozenset(registration.codes)
        _here[self._options.name] = self
        self._renewed_at = NEVER
        self._renewed(begun)
        logger.info("%s started", self)

    def _is_predecessor_gone(self, host: str, pid: int) -> bool:
        # A row of this process that it knows nothing of is a registration whose answer was lost.
        is_another_here = _here.get(self._options.name, self) is not self
        return is_gone(host, pid) and not (pid == os.getpid() and is_another_here)

    def renew(self) -> bool:
        """Renew; return False if this executor was declared dead and must :meth:`acquire` again."""
        begun = clock.monotonic()
        try:
            is_ours = executors.renew(self._alias, self.executor, self._length, self._status)
        except BaseException:
            self.claims_until = NEVER
            raise
        if is_ours:
            self._renewed(begun)
            self._tell_codes()
        else:
            self.trusted_until = self.claims_until = NEVER
        return is_ours

    def _tell_codes(self) -> None:
        """Write which codes have handlers here, if there are others since: modules of functions are imported later."""
        codes = frozenset(get_task_handlers())
        if codes != self._codes:
            executors.write_codes(self._alias, self.executor, codes)
            self._codes = codes

    def note_failure(self, is_refusal: bool) -> None:
        """Note that a renewal failed; ``is_refusal``: although the database answers, it accepts no writes."""
        self._refused_at = (self._refused_at or clock.monotonic()) if is_refusal else None

    @property
    def refused_for(self) -> float:
        """For how many seconds the database has answered that it accepts no writes; 0 if it accepts them."""
        since = self._refused_at
        return 0.0 if since is None else clock.monotonic() - since

    @property
    def is_steady(self) -> bool:
        """Whether it has been renewed for one heartbeat, without a gap.

        Otherwise the database may have accepted no writes, from this executor or from any. A lease that is over is then
        no sign of a death: the others get a heartbeat to renew theirs.
        """
        now = clock.monotonic()
        return self._steady_from <= now <= self._renewed_at + self._longest_gap

    def begin_stop(self) -> None:
        """Have the heartbeat write that this executor is stopping; it does so in its own thread."""
        if self._status is not ExecutorStatus.STOPPING:
            self._status = ExecutorStatus.STOPPING
            self.claims_until = NEVER
            self.has_news.set()
            logger.info("%s is stopping", self)

    def end(self) -> None:
        """End the lease in the database: this executor has stopped."""
        self.trusted_until = self.claims_until = self._renewed_at = NEVER
        if _here.get(self._options.name) is self:
            del _here[self._options.name]
        if executors.retire(self._alias, self.executor):
            logger.info("%s stopped", self)

    def __str__(self) -> str:
        return f"executor {self._options.name}"

    def _renewed(self, begun: float) -> None:
        self._refused_at = None
        before, self._renewed_at = self._renewed_at, clock.monotonic()
        if self._renewed_at - before > self._longest_gap:
            self._steady_from = self._renewed_at + self._options.heartbeat
        self.trusted_until = begun + self._options.lease * TRUSTED_PART
        if self._status is not ExecutorStatus.STOPPING:
            self.claims_until = self.trusted_until
        if self._status is ExecutorStatus.STOPPING:  # asked again: the stop may have begun meanwhile
            self.claims_until = NEVER

    def _registration(self) -> executors.Registration:
        options = self._options
        return executors.Registration(
            options.name,
            machine(),
            os.getpid(),
            options.threads,
            tuple(get_task_handlers()),
            options.queues,
            options.exclude_queues,
            self._status,
        )


class Heartbeat:
    """Renews a lease, in a thread and on a connection of its own, so that no handler can delay it.

    :meth:`beat` is one iteration. ``worn_out`` is set when the lease ran out and another executor has registered under
    this name since.
    """

    def __init__(self, options: ExecutorOptions, lease: Lease, worn_out: Event) -> None:
        self._alias = options.database
        self._period = options.heartbeat
        self._lease = lease
        self._worn_out = worn_out

    def beat(self) -> float:
        """Renew the lease once; return the seconds until the next renewal.

        One that had to wait is repeated at once: the lease may count from its start.
        """
        begun = clock.monotonic()
        if not self._renew():
            return min(1.0, self._period / 3)  # others may declare it dead a heartbeat after they can write again
        return self._period if clock.monotonic() - begun < self._period else 0.0

    def _renew(self) -> bool:
        try:
            if not self._lease.renew():
                logger.error("%s was declared dead; it continues under a new id", self._lease)
                self._lease.acquire()
            return True
        except NameInUse as error:
            logger.error("another executor registered under this name after this one was declared dead: %s", error)
            self._worn_out.set()
        except DatabaseError as error:
            logger.warning("heartbeat failed: %s", error)
            discard_after(error, self._alias)
            self._lease.note_failure(access_to(connections[self._alias]) is Access.READ)
        return False


def machine() -> str:
    """Return the name of the space in which a process id is unique: the host and, on Linux, its boot and PID namespace.

    Two containers may have the same host name and use the same process ids for different processes.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} ({boot}-{namespace})"


def is_gone(host: str, pid: int) -> bool:
    """Return whether a process has certainly ended: it was on this machine, and its id is free or this process's."""
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
    # A zombie has ended, but its parent has not read its exit code yet; only Linux has /proc.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False

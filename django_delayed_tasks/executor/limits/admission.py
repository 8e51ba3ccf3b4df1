"""Which of the claimed tasks this process may run: not those of unknown codes, and crash suspects one after the other.

A code without a handler here is unknown, as during a rolling deploy. A *crash suspect* is a task that was rescued from
dead executors more than once: it may be the one that crashes them. Two suspects never run in one process at the same
time. Otherwise the one that crashes would take the same innocent tasks down with it until their rescues are used up.
While a suspect runs, the executor does not even claim another one.
"""

from dataclasses import replace
from datetime import timedelta
from threading import Lock

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import find, find_function
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.settling.settlement import released

LOOK_AGAIN = 60.0
"""Seconds for which tasks of an unknown code are not claimed."""
SUSPECT = 2
"""Rescues after which a task is a suspect, or ``max_rescues`` if that is fewer. A first rescue has no consequences: in
most cases the machine was the cause.
"""
PAUSE = timedelta(seconds=0.5)
"""How long after one released suspect the next becomes claimable again."""
PATIENCE = 10.0
"""Seconds after which a suspect that still runs is cleared: a crash comes early, and a hanging run must not block."""


class Admission:
    """Releases the claimed tasks that are not to run here now, and says which tasks not to claim.

    Attributes:
        has_refused: whether a task of an unknown code, or a crash suspect, was ever claimed here. Before that, no task
            is to be excluded.
    """

    def __init__(self, options: ExecutorOptions, held: Held, peers: Peers) -> None:
        self._is_drain = options.drain
        self._rescues = max(1, min(SUSPECT, options.max_rescues))
        self._held = held
        self._peers = peers
        self._lock = Lock()
        self._unknown: dict[str, float] = {}
        self._suspect: ClaimedTask | None = None
        self._since = float("-inf")
        self.has_refused = False

    def narrow(self, request: ClaimRequest) -> ClaimRequest:
        """Exclude the unknown codes from what is claimed and, while a crash suspect runs here, other suspects."""
        if self._unknown:
            request = replace(request, excluded=request.excluded | self._still_unknown())
        return replace(request, rescues_below=below) if (below := self.rescues_below) is not None else request

    @property
    def rescues_below(self) -> int | None:
        """The number of rescues from which on no task is to be claimed now; None to claim any."""
        suspect = self._suspect
        return self._rescues if suspect is not None and self._is_suspect_running(suspect) else None

    def _still_unknown(self) -> frozenset[str]:
        now = clock.monotonic()
        self._unknown = {code: until for code, until in self._unknown.items() if until > now and find(code) is None}
        return frozenset(self._unknown)

    def _is_suspect_running(self, suspect: ClaimedTask) -> bool:
        if self._is_drain or suspect.claim not in self._held:
            return False
        return clock.monotonic() - self._since < PATIENCE

    def admit(self, claimed: list[ClaimedTask]) -> list[ClaimedTask]:
        """Return the tasks to run, of those that were claimed together; the others are released. Thread-safe.

        Raises:
            DatabaseError: crash suspects could not be released; no task is to be run then.
        """
        with self._lock:
            return self._admit(claimed)

    def _admit(self, claimed: list[ClaimedTask]) -> list[ClaimedTask]:
        for task in {task.biz_code: task for task in claimed if find(task.biz_code) is None}.values():
            find_function(task)
        unknown = [task for task in claimed if find(task.biz_code) is None]
        known = [task for task in claimed if task not in unknown] if unknown else claimed
        self._refuse(unknown)
        # A drain ends when nothing is due, so it would leave suspects that are released until later behind.
        if self._is_drain or not [task for task in known if task.rescues]:
            return known
        return self._without_others_suspected(known)

    def _refuse(self, unknown: list[ClaimedTask]) -> None:
        """Release tasks of unknown codes; those that no live executor can run are postponed.

        Otherwise they would pile up where every poll reads them.
        """
        for task in unknown:
            self.has_refused = True
            self._unknown[task.biz_code] = clock.monotonic() + LOOK_AGAIN
            runs_elsewhere = self._peers.can_run(task.biz_code, task.queue)
            self._held.release([task], timedelta() if runs_elsewhere else timedelta(seconds=LOOK_AGAIN))

    def _without_others_suspected(self, tasks: list[ClaimedTask]) -> list[ClaimedTask]:
        """Return the tasks with one crash suspect at most; the others become claimable again one after the other."""
        suspects = [task for task in tasks if task.rescues >= self._rescues]
        if suspects:
            self.has_refused = True
            self._suspect, self._since = suspects.pop(0), clock.monotonic()
        chosen = [task for task in tasks if task not in suspects]
        if suspects:
            self._release_first(suspects, chosen)
        return chosen

    def _release_first(self, suspects: list[ClaimedTask], chosen: list[ClaimedTask]) -> None:
        """Release the other suspects before a chosen task starts: it may crash the process."""
        try:
            self._held.release_now([released(task, PAUSE * number) for number, task in enumerate(suspects, 1)])
        except BaseException:
            for number, task in enumerate(suspects, 1):
                self._held.release([task], PAUSE * number)
            self._held.release(chosen)
            raise

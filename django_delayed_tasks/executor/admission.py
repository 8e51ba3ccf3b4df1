"""Which of the claimed tasks this process may run: not those of unknown codes, and crash suspects one after the other.

A code without a handler here is unknown, as during a rolling deploy. For crash suspects see
``store/claiming/suspects.py``: tasks that must not run together with a running one are not even claimed.
"""

from dataclasses import replace
from datetime import timedelta
from threading import Lock

from django_delayed_tasks import clock
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import find, find_function
from django_delayed_tasks.handlers.functions import is_function
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.suspects import rescues_below
from django_delayed_tasks.store.settling.settlement import LOOK_AGAIN
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Admission:
    """Releases the claimed tasks that are not to run here now, and says which tasks not to claim.

    Attributes:
        has_refused: whether a task of an unknown code, or one that was rescued, was ever claimed here. Before that, no
            task is to be excluded.
        without_handler: the codes of due tasks for which neither this executor nor another live one has a handler.
    """

    def __init__(self, options: ExecutorOptions, held: Held, peers: Peers) -> None:
        self._max_rescues = options.max_rescues
        self._held = held
        self._peers = peers
        self._lock = Lock()
        self._unknown: dict[str, float] = {}
        self._rescued: list[ClaimedTask] = []
        self.has_refused = False
        self.without_handler: set[str] = set()

    def narrow(self, request: ClaimRequest) -> ClaimRequest:
        """Exclude unknown codes from claims, and rescued tasks that must not run next to the ones that run."""
        if self._unknown:
            request = replace(request, excluded=request.excluded | self._still_unknown())
        return replace(request, rescues_below=below) if (below := self.rescues_below) is not None else request

    @property
    def rescues_below(self) -> int | None:
        """The number of rescues from which on no task is to be claimed now; None to claim any."""
        running = (task.rescues for task in self._rescued if task.claim in self._held)
        return rescues_below(running, self._max_rescues)

    def _still_unknown(self) -> frozenset[str]:
        now = clock.monotonic()
        self._unknown = {code: until for code, until in self._unknown.items() if until > now and find(code) is None}
        return frozenset(self._unknown)

    def admit(self, claimed: list[ClaimedTask]) -> list[ClaimedTask]:
        """Return the tasks to run, of those that were claimed together; the others are released. Thread-safe.

        Raises:
            DatabaseError: crash suspects could not be released; no task is to be run then.
        """
        with self._lock:
            return self._admit(claimed)

    def _admit(self, claimed: list[ClaimedTask]) -> list[ClaimedTask]:
        for task in {task.biz_code: task for task in claimed if find(task.biz_code) is None}.values():
            project.attempt(f"the import of {task.biz_code}", find_function, task)
        unknown = [task for task in claimed if find(task.biz_code) is None]
        known = [task for task in claimed if task not in unknown] if unknown else claimed
        self._refuse(unknown)
        return self._apart(known) if [task for task in known if task.rescues] else known

    def _refuse(self, unknown: list[ClaimedTask]) -> None:
        """Release tasks of unknown codes; those that no live executor can run are postponed.

        Otherwise they would pile up where every poll reads them.
        """
        for task in unknown:
            self.has_refused = True
            self._unknown[task.biz_code] = clock.monotonic() + LOOK_AGAIN
            runs_elsewhere = self.runs_elsewhere(task)
            self._held.release([task], timedelta() if runs_elsewhere else timedelta(seconds=LOOK_AGAIN))

    def runs_elsewhere(self, task: ClaimedTask) -> bool:
        """Return whether another live executor can run a task of an unknown code; log once for each code if none can.

        Of functions that cannot be imported, their import is logged.
        """
        if self._peers.can_run(task.biz_code, task.queue):
            return True
        if task.biz_code not in self.without_handler and not is_function(task.biz_ext):
            self.without_handler.add(task.biz_code)
            logger.warning(
                "%s waits: neither this executor nor another one of the queue %r has a handler for %r; "
                "its tasks are looked at again every minute. A handler is found in task_handlers.py of an installed "
                "app or by TASK_HANDLERS, and starttask has to be restarted after one is added",
                task, task.queue, task.biz_code,
            )  # fmt: skip
        return False

    def _apart(self, tasks: list[ClaimedTask]) -> list[ClaimedTask]:
        """Return the tasks without the rescued ones that must not run next to another; these are released."""
        self.has_refused = True
        self._rescued = [task for task in self._rescued if task.claim in self._held]
        refused: list[ClaimedTask] = []
        for task in [task for task in tasks if task.rescues]:
            (self._rescued if self._may_join(task) else refused).append(task)
        chosen = [task for task in tasks if task not in refused]
        if refused:
            self._release_first(refused, chosen)
        return chosen

    def _may_join(self, task: ClaimedTask) -> bool:
        return (below := self.rescues_below) is None or task.rescues < below

    def _release_first(self, refused: list[ClaimedTask], chosen: list[ClaimedTask]) -> None:
        """Release the refused tasks before a chosen one starts: it may crash the process."""
        try:
            self._held.release_now(refused)
        except BaseException:
            self._held.release([*refused, *chosen])
            raise

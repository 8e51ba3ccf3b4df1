"""Settles the claims of executors that have ended as lost, and says whose they were."""

from collections import Counter
from collections.abc import Sequence

from django_delayed_tasks.executor import announcing
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.settling.reap import ReapedTask, take_orphans
from django_delayed_tasks.store.settling.settlement import is_final_failure
from django_delayed_tasks.support.durations import listed, plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Reaper:
    """Reaps the tasks of executors that have ended; :meth:`reap` is one iteration."""

    def __init__(self, options: ExecutorOptions, lease: Lease, failures: FailureReports) -> None:
        self._alias = options.database
        self._max_rescues = options.max_rescues
        self._lease = lease
        self._failures = failures

    def reap(self) -> bool:
        """Declare executors dead, reap all orphaned tasks, log whose they were, and report those reaped too often.

        While this executor cannot tell a death from a pause of the database, it declares none dead.
        """
        if self._lease.is_steady:
            executors.declare_expired_dead(self._alias, but=self._lease.executor)
        while taken := take_orphans(self._alias, self._max_rescues):
            wakeup.wake()
            announcing.reaped(self._alias, [one for one in taken if not one.is_given_back])
            for one in taken:
                if one.given_up and is_final_failure(one.settlement.outcome, one.then):
                    self._failures.report(one.given_up, one.settlement, one.then)
            self._log(taken)
        return False

    def _log(self, taken: Sequence[ReapedTask]) -> None:
        own = [one for one in taken if one.executor == self._lease.executor]
        if own:  # this executor has just ended its lease, to stop
            whose = plural(len(own), "task, whose run has", "tasks, whose runs have")
            logger.warning("%d %s not ended here, may run elsewhere (%s)", len(own), whose, codes_of(own))
        others = [one for one in taken if one.executor != self._lease.executor]
        self._log_others("stopped", [one for one in others if one.is_given_back])
        self._log_others("dead", [one for one in others if not one.is_given_back])

    def _log_others(self, how: str, taken: Sequence[ReapedTask]) -> None:
        if taken:
            owners = Counter(one.owner or "of unknown name" for one in taken)
            whose = f"{how} {plural(len(owners), 'executor')} {listed(list(owners))}"
            logger.warning("took %d %s (%s) from %s", len(taken), plural(len(taken), "task"), codes_of(taken), whose)


def codes_of(taken: Sequence[ReapedTask]) -> str:
    """Return how many tasks there are of each code, the most frequent first: "mail: 7, report: 1"."""
    counts = Counter(one.biz_code for one in taken)
    return listed([f"{code}: {count}" for code, count in counts.most_common()])

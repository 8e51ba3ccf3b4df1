"""Takes the claims of dead executors, and says whose they were."""

import logging
from collections import Counter
from collections.abc import Sequence

from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling.failures import Failures
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import load
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.settling.reap import Taken, take_orphans
from django_delayed_tasks.store.settling.settlement import Settlement

logger = logging.getLogger(__name__)

MOST_NAMES = 10
"""Codes, and executors, that a line of the log names."""


class Reaper:
    """Reaps the tasks of dead executors; :meth:`reap` is one iteration."""

    def __init__(self, options: ExecutorOptions, lease: Lease, failures: Failures) -> None:
        self._alias = options.database
        self._max_rescues = options.max_rescues
        self._lease = lease
        self._failures = failures

    def reap(self) -> bool:
        """Reap all orphaned tasks, log whose they were, and report those that were reaped too often."""
        while taken := take_orphans(self._alias, self._max_rescues):
            wakeup.wake()
            for one in taken:
                if one.then is Then.FAILED:
                    self._report(one)
            self._log(taken)
        return False

    def _report(self, taken: Taken) -> None:
        if failed := load(self._alias, taken.claim):
            task, error = failed
            task.executor = taken.executor
            given_up = Settlement(taken.claim, RunOutcome.LOST, Then.FAILED, error=error)
            self._failures.report(task, given_up, taken.then)

    def _log(self, taken: Sequence[Taken]) -> None:
        own = [one for one in taken if one.executor == self._lease.executor]
        if own:  # this executor has just ended its lease, to stop
            logger.warning("%d tasks, whose runs have not ended here, may run elsewhere: %s", len(own), codes_of(own))
        others = [one for one in taken if one.executor != self._lease.executor]
        if others:
            names = executors.names(self._alias, {one.executor for one in others})
            owners = Counter(f"{names.get(one.executor, 'of unknown name')} ({one.executor})" for one in others)
            word = "executor" if len(owners) == 1 else "executors"
            owned = listed(list(owners))
            logger.warning("took %d tasks from dead %s %s: %s", len(others), word, owned, codes_of(others))


def codes_of(taken: Sequence[Taken]) -> str:
    """Return how many tasks there are of each code, the most frequent first: "mail 7, report 1"."""
    counts = Counter(one.biz_code for one in taken)
    return listed([f"{code} {count}" for code, count in counts.most_common()])


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many there are besides."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

"""A settler by itself: what it settles is written as an executor does that has no limited handlers."""

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.settling.settler import Settler
from django_delayed_tasks.store.settling.settle import Ended, Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.failure_reports import Told


class Plainly:
    """Writes the ends, and starts nothing."""

    def write(self, batch: list[Settlement]) -> Ended:
        """Settle without the rows that stay locked."""
        return settle("default", batch, Wait.A_SECOND)


def settler_of(held: Held, failures: FailureReports | None = None) -> Settler:
    """A settler of these claims, which the test starts, or calls."""
    return Settler("default", held, failures or Told(), Plainly())

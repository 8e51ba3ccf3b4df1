"""A settler by itself: what it settles leaves no slots."""

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.settling.settler import Settler
from django_delayed_tasks.testing.executing.stand_ins import NoRelay
from tests.executor.failure_reports import Told


def settler_of(held: Held, failures: FailureReports | None = None) -> Settler:
    """A settler of these claims, which the test starts, or calls."""
    return Settler("default", held, failures or Told(), NoRelay())

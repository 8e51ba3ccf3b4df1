"""A settler by itself: what it settles leaves no slots."""

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.settling.settler import Settler
from django_delayed_tasks.store.settling.settle import SettleResult
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.failure_reports import Told


class NoRelay:
    """Hands no slots on."""

    def hand_on(self, batch: list[Settlement]) -> SettleResult | None:
        return None

    def resume(self) -> None:
        pass


def settle_all(held: Held, settlements: list[Settlement], failures: FailureReports | None = None) -> None:
    """Let a settler settle these, however long that takes, and end."""
    for settlement in settlements:
        held.put_end(settlement)
    settle_rest(settler_of(held, failures))


def settle_rest(settler: Settler) -> None:
    """Settle what had to wait, and end."""
    settler.start()
    assert settler.finish(timeout=60)


def settler_of(held: Held, failures: FailureReports | None = None) -> Settler:
    """A settler of these claims, which the test starts, or calls."""
    return Settler("default", held, failures or Told(), NoRelay())

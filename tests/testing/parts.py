"""What tests of ``run_due_tasks`` share."""

from collections.abc import Iterable
from datetime import timedelta

from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.testing import Ran

DONE, RETRIED, FAILED = RunOutcome.DONE, RunOutcome.RETRIED, RunOutcome.FAILED
HOUR = timedelta(hours=1)


def numbers(runs: Iterable[Ran]) -> list[str]:
    """Return the numbers of the tasks that ran, in this order."""
    return [one.biz_num for one in runs]

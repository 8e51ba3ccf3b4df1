"""What a project tests its handlers with: see docs/how-to/test-your-handlers.md."""

from django_delayed_tasks.clock import host_clock
from django_delayed_tasks.testing.clocks import Journey, travel
from django_delayed_tasks.testing.faults import crash_next, fail_next, forget_faults, lose_claim_next
from django_delayed_tasks.testing.made_tasks import MadeTask, make_task
from django_delayed_tasks.testing.running import declare_recurring, run_due_tasks, run_until
from django_delayed_tasks.testing.runs import Ran, Runs
from django_delayed_tasks.testing.scheduled import assert_not_scheduled, assert_scheduled, scheduled_tasks

__all__ = [
    "Journey",
    "MadeTask",
    "Ran",
    "Runs",
    "assert_not_scheduled",
    "assert_scheduled",
    "crash_next",
    "declare_recurring",
    "fail_next",
    "forget_faults",
    "host_clock",
    "lose_claim_next",
    "make_task",
    "run_due_tasks",
    "run_until",
    "scheduled_tasks",
    "travel",
]

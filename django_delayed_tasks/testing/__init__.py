"""The kit with which a project tests its handlers: see docs/how-to/test-your-handlers.md.

The names are loaded when they are first used: pytest loads its plugins before models can be imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_delayed_tasks.clock import host_clock
    from django_delayed_tasks.testing.clocks import Journey, travel
    from django_delayed_tasks.testing.faults import crash_next, fail_next, forget_faults, lose_claim_next
    from django_delayed_tasks.testing.idempotence import assert_idempotent
    from django_delayed_tasks.testing.live import LiveExecutor
    from django_delayed_tasks.testing.made_tasks import MadeTask, make_task
    from django_delayed_tasks.testing.running import declare_recurring, run_due_tasks, run_until
    from django_delayed_tasks.testing.runs import Ran, Runs
    from django_delayed_tasks.testing.scheduled import assert_not_scheduled, assert_scheduled, scheduled_tasks

__all__ = [
    "Journey",
    "LiveExecutor",
    "MadeTask",
    "Ran",
    "Runs",
    "assert_idempotent",
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

_HOMES = {
    "clock": "host_clock",
    "testing.clocks": "Journey travel",
    "testing.faults": "crash_next fail_next forget_faults lose_claim_next",
    "testing.idempotence": "assert_idempotent",
    "testing.live": "LiveExecutor",
    "testing.made_tasks": "MadeTask make_task",
    "testing.running": "declare_recurring run_due_tasks run_until",
    "testing.runs": "Ran Runs",
    "testing.scheduled": "assert_not_scheduled assert_scheduled scheduled_tasks",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"django_delayed_tasks.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

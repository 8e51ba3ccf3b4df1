"""How late a run began."""

from datetime import timedelta

from django_delayed_tasks.models import TaskRun


def lateness(run: TaskRun) -> timedelta | None:
    """Return how long after its time the run began; None for later attempts, whose time the history does not have."""
    if run.started is None or run.attempt > 1:
        return None
    return max(run.started - run.when, timedelta(0))

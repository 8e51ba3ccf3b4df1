"""The mode "inline": due tasks run in the thread that has added them, when its transaction is committed."""

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.testing.running import MOST_RUNS, is_running, run_due_tasks


def run_inline(alias: str) -> None:
    """Run what is due now, unless this thread is doing so: the runs in progress are followed by what they add.

    However many are due now, all of them run. What they add is taken for endless after ``MOST_RUNS`` runs.
    """
    if not is_running():
        due = Task.objects.using(alias).filter(status=TaskStatus.PENDING, claim_at__lte=read_now(alias)).count()
        run_due_tasks(max_runs=due + MOST_RUNS, using=alias)

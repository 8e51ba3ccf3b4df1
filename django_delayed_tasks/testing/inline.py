"""The mode "inline": due tasks run in the thread that has added them, when its transaction is committed."""

from django_delayed_tasks.testing.running import is_running, run_due_tasks


def run_inline(alias: str) -> None:
    """Run what is due now, unless this thread is doing so: the runs in progress are followed by what they add."""
    if not is_running():
        run_due_tasks(using=alias)

"""The verb ``retime`` of ``manage.py tasks``: what was written while the database's clock was ahead is mended."""

from django.utils.translation import ngettext

from django_delayed_tasks.stats.findings import tasks_text
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.resources import retime as leases
from django_delayed_tasks.store.schedules import retime as tasks
from django_delayed_tasks.store.schedules.recurrence import read_now


def found(alias: str) -> tuple[int, int]:
    """Return how many tasks and leases would be mended."""
    now = read_now(alias)
    counts = leases.leases_ahead(alias, now).count(), leases.executors_ahead(alias, now).count()
    return sum(1 for _ in tasks.find(alias)), sum(counts)


def mend(alias: str) -> tuple[int, int]:
    """Mend them, and wake executors; return how many tasks and leases were mended."""
    mended = tasks.retime(alias), leases.retime(alias, read_now(alias))
    wakeup.when_committed(alias)
    return mended


def text(tasks: int, leases: int, *, is_dry: bool) -> str:
    """Return a sentence that says what was done, or would be."""
    values = {"tasks": tasks_text(tasks), "leases": leases}
    if is_dry:
        would = ngettext(
            "%(tasks)s and %(leases)d lease would be mended.",
            "%(tasks)s and %(leases)d leases would be mended.",
            leases,
        )
        return would % values
    done = ngettext(
        "%(tasks)s and %(leases)d lease were mended.", "%(tasks)s and %(leases)d leases were mended.", leases
    )
    return done % values

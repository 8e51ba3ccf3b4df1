"""The tasks that wait in each queue of the tasks' database, read as ``store/claiming/waiting.py`` does."""

from django_delayed_tasks.conf import settings
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.agenda import Agenda


def read_agenda() -> Agenda:
    """Return every level with pending tasks, including those of paused queues, which executors skip."""
    return waiting.read_agenda(settings.DATABASE)


def count_due(agenda: Agenda) -> dict[str, int]:
    """Return how many tasks of each queue are due, exact up to ``COUNTED`` for each level."""
    return waiting.count_due(settings.DATABASE, agenda)

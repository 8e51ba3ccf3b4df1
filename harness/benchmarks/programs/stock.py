"""Make rows: ``stock empty``, ``stock KIND START STOP [LEVELS]``; a KIND is one of KINDS, and runs have no levels."""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import django
from django.core.management import call_command
from tqdm import tqdm

from harness.benchmarks import stock

AT_ONCE = 100_000
RECENTLY = timedelta(minutes=10)
KINDS: dict[str, Callable[..., None]] = {
    "waiting": stock.add_waiting,
    "overdue": stock.add_overdue,
    "failed": stock.add_failed,
    "runs": stock.add_runs,
    "recent_runs": partial(stock.add_runs, ended=RECENTLY),
    "recent_failures": partial(stock.add_runs, ended=RECENTLY, are_failed=True),
}


def main(word: str, *numbers: str) -> None:
    """Empty or fill the database of the settings."""
    from django_delayed_tasks import Task, TaskRun
    from django_delayed_tasks.models import Executor, Overview, Statistic

    call_command("migrate", verbosity=0)
    if word == "empty":
        # Executors that do not exist would share the wakings of the next case's.
        stock.empty(*(model._meta.db_table for model in (Task, TaskRun, Executor, Overview, Statistic)))
        return
    start, stop, *levels = map(int, numbers)
    for first in tqdm(range(start, stop, AT_ONCE), desc=word, unit="×100,000", leave=False):
        last = min(stop, first + AT_ONCE)
        KINDS[word](first, last, *levels)
    stock.finish_writing()


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
    print(json.dumps({}))

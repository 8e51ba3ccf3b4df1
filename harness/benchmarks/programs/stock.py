"""Make rows: ``stock empty``, ``stock waiting START STOP LEVELS``, ``stock runs START STOP``."""

import json
import sys

import django
from django.core.management import call_command
from tqdm import tqdm

from harness.benchmarks import stock

AT_ONCE = 100_000


def main(word: str, *numbers: str) -> None:
    """Empty or fill the database of the settings."""
    from django_delayed_tasks import Task, TaskRun

    call_command("migrate", verbosity=0)
    if word == "empty":
        stock.empty(Task._meta.db_table, TaskRun._meta.db_table)
        return
    start, stop, *levels = map(int, numbers)
    for first in tqdm(range(start, stop, AT_ONCE), desc=word, unit="×100,000", leave=False):
        last = min(stop, first + AT_ONCE)
        if word == "waiting":
            stock.add_waiting(first, last, *levels)
        else:
            stock.add_runs(first, last)
    stock.finish_writing()


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
    print(json.dumps({}))

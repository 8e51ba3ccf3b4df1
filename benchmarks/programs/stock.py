"""Make rows: ``stock empty``, ``stock waiting START STOP LEVELS``, ``stock runs START STOP``."""

import json
import sys

import django
from django.core.management import call_command

from benchmarks import stock


def main(word: str, *numbers: str) -> None:
    """On the database of the settings."""
    from django_delayed_tasks import Task, TaskRun

    call_command("migrate", verbosity=0)
    if word == "empty":
        stock.empty(Task._meta.db_table, TaskRun._meta.db_table)
    else:
        {"waiting": stock.add_waiting, "runs": stock.add_runs}[word](*map(int, numbers))  # type: ignore[operator]


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
    print(json.dumps({}))

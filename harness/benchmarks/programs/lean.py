"""The lean pipeline: ``lean fill TASKS``, or ``lean drain RANK PROCESSES``, the share of one of several."""

import json
import sys

import django
from django.conf import settings

from harness.benchmarks.programs.together import begin_together

BATCH = 100


def main(word: str, *numbers: str) -> None:
    """Fill or drain the database of the settings."""
    from harness.benchmarks.floors import lean_mysql, lean_postgres

    entry = settings.DATABASES["default"]
    floor = lean_postgres if "postgres" in entry["ENGINE"] else lean_mysql
    if word == "fill":
        floor.fill(entry, int(numbers[0]))
        print(json.dumps({}))
    else:
        drain = floor.pipeline(entry, BATCH, place=int(numbers[0]), processes=int(numbers[1]))
        begin_together(drain)


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])

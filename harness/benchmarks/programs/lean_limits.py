"""The lean program for limits, on MariaDB or MySQL: ``lean_limits TASKS SECONDS THREADS SLOTS KEYS WORK``."""

import json
import sys

import django
from django.conf import settings


def main(tasks: int, seconds: float, threads: int, slots: int, keys: int, work: float) -> None:
    """Fill the database of the settings and measure."""
    from harness.benchmarks.floors.lean_limits import Program, fill

    entry = settings.DATABASES["default"]
    fill(entry, tasks, keys)
    print(json.dumps(Program(entry, threads, slots, keys, work).run(seconds)))


if __name__ == "__main__":
    django.setup()
    tasks, seconds, threads, slots, keys, work = sys.argv[1:]
    main(int(tasks), float(seconds), int(threads), int(slots), int(keys), float(work))

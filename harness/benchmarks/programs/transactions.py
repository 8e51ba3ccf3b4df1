"""The floor of atomic runs: ``transactions RANK PROCESSES THREADS``, the share of one process of several."""

import sys

import django
from django.conf import settings

from harness.benchmarks.programs.together import begin_together

BATCH = 100


def main(place: int, processes: int, threads: int) -> None:
    """Drain the database of the settings."""
    from harness.benchmarks.floors.transactions import pipeline

    begin_together(pipeline(settings.DATABASES["default"], BATCH, place, processes, threads))


if __name__ == "__main__":
    django.setup()
    main(*map(int, sys.argv[1:]))

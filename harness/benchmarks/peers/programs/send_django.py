"""Enqueue one by one at full speed, each in a transaction of the caller: ``send_django SECONDS`` prints how many."""

import sys
from time import monotonic

import django
from django.db import transaction


def send(seconds: float) -> int:
    """Enqueue for ``seconds``; return how many."""
    from harness.benchmarks.peers.programs.django_tasks import sustained

    tasks, end = 0, monotonic() + seconds
    while (now := monotonic()) < end:
        with transaction.atomic():
            sustained.enqueue(now)
        tasks += 1
    return tasks


if __name__ == "__main__":
    django.setup()
    print(send(float(sys.argv[1])))

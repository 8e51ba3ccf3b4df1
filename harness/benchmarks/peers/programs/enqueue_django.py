"""Enqueue with a backend of django.tasks, with a commit each: ``enqueue_django TASKS`` prints the seconds."""

import json
import sys
import time

import django
from django.core.management import call_command
from django.db import connection


def enqueue(tasks: int) -> float:
    """Make the tables; return the seconds that it takes."""
    from harness.benchmarks.peers.programs.django_tasks import nothing

    call_command("migrate", verbosity=0)
    connection.ensure_connection()
    began = time.perf_counter()
    for _ in range(tasks):
        nothing.enqueue()
    return time.perf_counter() - began


if __name__ == "__main__":
    django.setup()
    print(json.dumps(enqueue(int(sys.argv[1]))))

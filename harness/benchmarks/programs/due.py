"""Let all tasks be due from now on and wait until none is left: ``due``. Prints seconds, and deadlocks meanwhile."""

import json
import time

import django
from django.db import connection

from harness.benchmarks.counts import conflicts

LOOK_EVERY, PATIENCE = 0.02, 300.0
"""Seconds."""


def main() -> dict[str, float]:
    """Make all tasks due by one statement, so that they become due at the same moment."""
    from django_delayed_tasks import Task
    from django_delayed_tasks.store.sql.dialects import dialect_of

    before = conflicts(connection)
    table, now = Task._meta.db_table, dialect_of(connection).now
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET claim_at = {now}, when_time = {now}, version = version + 1")
    began = time.monotonic()
    while Task.objects.exists():
        if time.monotonic() > began + PATIENCE:
            raise TimeoutError(f"{Task.objects.count()} tasks are left")
        time.sleep(LOOK_EVERY)
    return {"seconds": time.monotonic() - began, "conflicts": conflicts(connection) - before}


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main()))

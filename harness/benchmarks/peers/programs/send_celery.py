"""Once a worker answers, send tasks with an ETA: ``send_celery TASKS SPREAD AHEAD``.

They are due evenly over SPREAD seconds, the first of them AHEAD seconds after the sending begins.
"""

import sys
import time
from datetime import UTC, datetime

from harness.benchmarks.peers.programs.celery_app import app, late

PATIENCE = 60.0
"""Seconds in which a worker must answer."""


def wait_for_worker() -> None:
    """TimeoutError when there is none."""
    until = time.monotonic() + PATIENCE
    while not app.control.ping(timeout=1.0):
        if time.monotonic() > until:
            raise TimeoutError("no worker of Celery answers")


def send(tasks: int, spread: float, ahead: float) -> None:
    """Send all tasks before the first is due, or raise TimeoutError."""
    first = time.time() + ahead
    for number in range(tasks):
        due = first + spread * number / tasks
        late.apply_async((due,), eta=datetime.fromtimestamp(due, UTC))
    if time.time() > first:
        raise TimeoutError(f"the first of {tasks} tasks was due before the last was sent")


if __name__ == "__main__":
    wait_for_worker()
    send(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))

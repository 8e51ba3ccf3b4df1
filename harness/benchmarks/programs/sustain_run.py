"""One executor under a load that lasts: ``sustain_run EVERY``.

It says "ready" and runs tasks until its input has a line. Then it waits until no task is left, and prints for each
``EVERY`` seconds the latenesses of the tasks that started, in tenths of milliseconds, and the resident megabytes at the
end.
"""

import json
import sys
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import django
from django.db import connection

CODE = "sustained"
PATIENCE = 120.0
"""Seconds after the last task was added."""


def handlers(note: Callable[[float], None]) -> None:
    """Register a handler that tells how many seconds late each task has started."""
    from django_delayed_tasks import TaskHandler, register_task_handler

    class Sustained(TaskHandler):
        biz_code = CODE

        def handle(self, task: Any) -> None:
            note(time.time() - task.when.timestamp())

    register_task_handler(Sustained)


class Periods:
    """What was measured, by periods of ``every`` seconds since the start.

    Latenesses are kept in arrays, since lists of them would be most of the growth of memory that is measured.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.late = [array("i")]
        self.megabytes: list[float] = []

    def note(self, lateness: float) -> None:
        """Note one start."""
        with self._lock:
            if time.monotonic() - self._began >= len(self.late) * self._every:
                self.end()
            self.late[-1].append(round(lateness * 10_000))

    def end(self) -> None:
        """End the present period."""
        from harness.benchmarks.programs.memory import of_this_process

        self.megabytes.append(of_this_process()["VmRSS"])
        self.late.append(array("i"))


def wait_for_the_last() -> None:
    """Wait until no task is left.

    Raises:
        RuntimeError: tasks are left after ``PATIENCE`` seconds.
    """
    from django_delayed_tasks import Task

    patient_until = time.monotonic() + PATIENCE
    while Task.objects.exists():
        if time.monotonic() > patient_until:
            raise RuntimeError(f"{Task.objects.count()} tasks are left")
        time.sleep(0.2)
    connection.close()


def main(every: float) -> dict[str, Any]:
    """Run what comes."""
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings

    periods = Periods(every)
    handlers(periods.note)
    executor = Executor(from_settings())
    executor.start()
    print("ready", flush=True)
    sys.stdin.readline()
    wait_for_the_last()
    executor.stop()
    periods.end()
    return {"late": [list(late) for late in periods.late[:-1]], "megabytes": periods.megabytes}


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main(float(sys.argv[1]))))

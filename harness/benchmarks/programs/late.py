"""One executor that notes when its tasks start: ``late TASKS [OPTION=VALUE …]``, options as in settings, in lower case.

It says "ready" and, once ``TASKS`` tasks have started, prints [number, wall clock, the task's ``when``] of each.
"""

import ast
import json
import sys
import time
from collections.abc import Callable
from threading import Event
from typing import Any

import django

BUSY = 0.02
"""Seconds that a task of the load takes."""
PATIENCE = 120.0

Start = tuple[str, float, float]


def handlers(note: Callable[[Start], None]) -> None:
    """Register what notes its start, and the load."""
    from django_delayed_tasks import TaskHandler, register_task_handler

    class Late(TaskHandler):
        biz_code = "late"

        def handle(self, task: Any) -> None:
            now = time.time()
            note((task.biz_num, now, task.when.timestamp()))

    class Busy(TaskHandler):
        biz_code = "busy"
        keep_history = "none"

        def handle(self, task: Any) -> None:
            time.sleep(BUSY)

    register_task_handler(Late)
    register_task_handler(Busy)


def main(tasks: int, options: dict[str, Any]) -> None:
    """Run what comes."""
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings

    starts: list[Start] = []
    all_started = Event()

    def note(start: Start) -> None:
        starts.append(start)
        if len(starts) == tasks:
            all_started.set()

    handlers(note)
    executor = Executor(from_settings(**options))
    executor.start()
    print("ready", flush=True)
    all_started.wait(PATIENCE)
    executor.stop()
    print(json.dumps(starts))


if __name__ == "__main__":
    django.setup()
    count, *words = sys.argv[1:]
    pairs = (word.partition("=") for word in words)
    main(int(count), {name: ast.literal_eval(value) for name, _, value in pairs})

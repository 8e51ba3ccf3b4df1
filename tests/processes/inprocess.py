"""A program that runs an executor in its own threads and does what its input says, a word on a line."""

import sys
import threading
from collections.abc import Callable

import django

django.setup()

from django_delayed_tasks import Task, TaskException, api  # noqa: E402


def start() -> None:
    try:
        api.start(name="inside", poll_interval=600.0)
        print("started", flush=True)
    except TaskException as error:
        print(f"refused: {error}", flush=True)


def add(number: str) -> None:
    api.add_task(Task(biz_code="held", biz_num=number))


def shutdown(how: str) -> None:
    api.shutdown(wait=how == "waiting")
    print("shut down; threads:", *sorted(thread.name for thread in threading.enumerate()), flush=True)


COMMANDS: dict[str, Callable[..., None]] = {"start": start, "add": add, "shutdown": shutdown}

for line in sys.stdin:
    word, *arguments = line.split()
    if word == "end":
        break
    COMMANDS[word](*arguments)
print("the end", flush=True)

"""A program that forks while an executor runs in its threads. It does what its input says, and so does its child.

The child reads the next lines until ``exit``; then the parent continues. With the argument ``unhooked`` no function of
ours is called when it forks, as under uWSGI.
"""

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack

import django

if "unhooked" in sys.argv:
    os.register_at_fork = lambda **hooks: None

django.setup()

from django.db import connections  # noqa: E402

from django_delayed_tasks import Task, TaskException, api  # noqa: E402
from django_delayed_tasks.executor.claiming.listener import Listener  # noqa: E402
from django_delayed_tasks.executor.process import in_process  # noqa: E402
from django_delayed_tasks.leases import waiting  # noqa: E402
from django_delayed_tasks.store.notices import wakeup  # noqa: E402

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what this is about
LOCKED = (in_process, wakeup, waiting)
listens = 0
usual = Listener.listen


def listen(self: Listener) -> float:
    global listens
    listens += 1
    return usual(self)


Listener.listen = listen  # type: ignore[method-assign]


def start(name: str) -> None:
    """An executor that serves the queue of its own name."""
    try:
        api.start(name=name, queues=(name,))
        print(f"{name} started by {os.getpid()}", flush=True)
    except TaskException as error:
        print(f"refused: {error}", flush=True)


def add(queue: str, number: str) -> None:
    api.add_task(Task(biz_code="held", biz_num=number, queue=queue))
    connections.close_all()
    print(f"added {number}", flush=True)


def shutdown() -> None:
    api.shutdown()
    print("shut down; threads:", *sorted(thread.name for thread in threading.enumerate()), flush=True)


def fork(how: str) -> None:
    """``how`` is "free", or "locked": while other threads have locks, as it seems to the child."""
    with ExitStack() as locks:
        if how == "locked":
            for module in LOCKED:
                locks.enter_context(module._lock)
        child = os.fork()
    if child:
        print("child ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        print(f"child {os.getpid()}", flush=True)


def work(queue: str, number: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=add, args=(queue, number))
    child.start()
    child.join()
    print("child ended", child.exitcode, flush=True)


def count() -> None:
    print(f"listened {listens} times", flush=True)


COMMANDS: dict[str, Callable[..., None]] = {
    "start": start, "add": add, "shutdown": shutdown, "fork": fork, "work": work, "count": count,
}  # fmt: skip

with open(0, "rb", buffering=0) as lines:  # unbuffered: two processes read it
    while said := lines.readline():
        word, *arguments = said.decode().split()
        if word == "exit":
            break
        COMMANDS[word](*arguments)

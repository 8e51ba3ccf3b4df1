"""A web application that starts an executor where it is loaded: with ``--preload`` in the master process of gunicorn.

``GET /QUEUE/NUMBER`` adds a task. The other functions are what gunicorn calls as its configuration says.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

import django

django.setup()

from django.db import close_old_connections  # noqa: E402

from django_delayed_tasks import Task, api  # noqa: E402
from django_delayed_tasks.executor.claiming.listener import Listener  # noqa: E402

listens = 0
usual = Listener.listen


def listen(self: Listener) -> float:
    global listens
    listens += 1
    return usual(self)


Listener.listen = listen  # type: ignore[method-assign]
if os.environ.get("DDT_START_WHERE") == "master":
    api.start(name="master", queues=("master",))


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    _, queue, number = environ["PATH_INFO"].split("/")
    api.add_task(Task(biz_code="held", biz_num=number, queue=queue))
    close_old_connections()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


def post_worker_init(worker: Any) -> None:
    """In a worker that is ready: from now on it ends at SIGTERM."""
    if os.environ.get("DDT_START_WHERE") == "workers":
        api.start(name=f"worker-{os.getpid()}", queues=("workers",))
    print(f"worker {os.getpid()} began", flush=True)


def child_exit(server: Any, worker: Any) -> None:
    """In the master, when a worker has ended."""
    print(f"worker {worker.pid} ended", flush=True)


def on_exit(server: Any) -> None:
    """In the master, at its end."""
    print(f"listened {listens} times", flush=True)

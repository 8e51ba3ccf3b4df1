"""A web process with a pool of connections, in whose threads an executor runs; does what its input says.

``start``, ``request NUMBER``: what a view does that adds this task, and the end of its request.
"""

import sys
from typing import Any

import django

django.setup()

from django.db import close_old_connections, connections  # noqa: E402

from django_delayed_tasks import Task, api  # noqa: E402

connection: Any = connections["default"]


def request(number: str) -> None:
    api.add_task(Task(biz_code="held", biz_num=number))
    is_pooled = connection.connection._pool is connection.pool
    close_old_connections()
    stats = connection.pool.get_stats()
    print(f"request {number}: pooled {is_pooled}, free {stats['pool_available']} of {stats['pool_size']}", flush=True)


for line in sys.stdin:
    word, *arguments = line.split()
    if word == "start":
        api.start(name="inside", poll_interval=600.0, threads=8)
        print("started", flush=True)
    elif word == "request":
        request(*arguments)
    else:
        break

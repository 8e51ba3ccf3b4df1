"""A process that holds a mutex while no connection of its pool is free: ``python -m tests.leases.pooled``."""

from typing import Any

import django

django.setup()

from django.db import connections  # noqa: E402

from django_delayed_tasks.leases import mutex  # noqa: E402
from tests.leases.forker import await_renewal  # noqa: E402

connection: Any = connections["default"]
with mutex("index", ttl=12.0) as lease:
    stats = connection.pool.get_stats()
    print(f"free {stats['pool_available']} of {stats['pool_max']}", flush=True)
    await_renewal(lease)
    lease.check()
    print("held", lease.is_held, flush=True)

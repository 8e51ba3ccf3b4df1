"""Django's connection pool, on PostgreSQL: as projects have it for executors, and a small one for the load."""

import atexit
from copy import deepcopy
from typing import Any

from django.db import connections

POOLED = {"DDT_TORTURE_POOL": "1"}
"""The environment of an executor whose settings say ``"pool": True``, which is four connections."""
OF_LOAD = {"min_size": 1, "max_size": 4, "timeout": 10}


def use_pool() -> None:
    """Make this thread take its connection from the pool, where there is one."""
    usual: Any = connections["default"]
    if usual.vendor != "postgresql":
        return
    settings = deepcopy(connections.settings["default"])
    settings["OPTIONS"]["pool"] = OF_LOAD
    usual.close()
    connections["default"] = pooled = type(usual)(settings, "default")
    atexit.register(pooled.close_pool)

"""Django's connection pool, on PostgreSQL: as projects have it for executors, and a small one for the load."""

from copy import deepcopy
from typing import Any

from django.db import connections

POOLED = {"DDT_TORTURE_POOL": "1"}
"""The environment of an executor whose settings say ``"pool": True``, which is four connections."""
OF_LOAD = {"min_size": 1, "max_size": 4, "timeout": 10}

_pools: dict[tuple[str, str], dict[str, Any]] = {}
"""The pools by the server's address: Django has one per alias, but some scenarios move the driver behind a proxy."""


def use_pool() -> None:
    """Make this thread take its connection from the pool, where there is one."""
    usual: Any = connections["default"]
    if usual.vendor != "postgresql":
        return
    settings = deepcopy(connections.settings["default"])
    settings["OPTIONS"]["pool"] = OF_LOAD
    usual.close()
    connections["default"] = pooled = type(usual)(settings, "default")
    pooled._connection_pools = _pools.setdefault((settings["HOST"], settings["PORT"]), {})


def close_pools() -> None:
    """Close the connections of every pool; a thread that uses one afterwards gets a new pool."""
    for by_alias in _pools.values():
        for pool in by_alias.values():
            pool.close()
        by_alias.clear()

"""The driver's own connections on a cluster: as executors' are, they fail over."""

from django.db import connections

from harness.torture.databases.base import Database
from harness.torture.databases.galera import Galera

TIMEOUTS = {"connect_timeout": 3, "read_timeout": 20, "write_timeout": 20}
"""The timeouts of galera_settings, a module that must not be imported when other databases are used."""


def fail_over(database: Database) -> None:
    """Make all nodes, the first one first, the default database of this process."""
    assert isinstance(database, Galera)
    entry = connections.settings["default"]
    entry["ENGINE"] = "django_delayed_tasks.backends.galera"
    hosts = database.hosts(database.cluster.nodes[0])
    entry["OPTIONS"].update(TIMEOUTS, hosts=hosts, init_command="SET SESSION wsrep_sync_wait = 7")
    connections["default"].close()
    del connections["default"]

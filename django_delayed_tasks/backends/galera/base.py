"""``"ENGINE": "django_delayed_tasks.backends.galera"``: Django's MySQL engine with ``"OPTIONS": {"hosts": [...]}``.

Hosts are tried in the order of the list; one that did not answer, or that has lost its cluster, moves to the end for a
while. A connection to a node that has lost its cluster is reported as unusable, so that Django and the executor open
a new one, which leads to the next node (docs/how-to/cluster.md). It is for MySQL Group Replication, too.
"""

import contextlib
from typing import Any, NamedTuple

import MySQLdb
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.db.backends.mysql import base

from django_delayed_tasks import clock

AVOIDED_FOR = 10.0
"""Seconds for which a host that failed is tried last."""
CONNECT_TIMEOUT = 3
"""Seconds, unless OPTIONS has a ``connect_timeout``: a host that is down does not even refuse a connection."""
_READY = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_provider_name')"
_WRITES_NOTHING = "SHOW GLOBAL VARIABLES WHERE Variable_name = 'super_read_only' AND Value = 'ON'"


class Host(NamedTuple):
    """The address at which a node listens."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


_failed_at: dict[Host, float] = {}
"""When each host last failed, by the monotonic clock; shared by all threads of this process."""


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to the first host that is ready."""

    def hosts(self) -> list[Host]:
        """Return all hosts, the ones that failed recently at the end.

        Raises:
            ImproperlyConfigured: ``hosts`` is not a list of strings such as "db1" or "db1:3306".
        """
        given = self.settings_dict["OPTIONS"].get("hosts") or [self.settings_dict["HOST"] or "127.0.0.1"]
        if isinstance(given, str) or not all(isinstance(one, str) and one for one in given):
            raise ImproperlyConfigured(f"OPTIONS['hosts'] of {self.alias!r} must be a list of 'host' or 'host:port'")
        usual = int(self.settings_dict["PORT"] or 3306)
        return sorted((_parsed(one, usual) for one in given), key=_has_failed_lately)

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params.pop("hosts", None)
        params.pop("unix_socket", None)
        return {"connect_timeout": CONNECT_TIMEOUT, **params}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        failures = []
        for host in self.hosts():
            try:
                connection = self._connect(host, conn_params)
                if _is_ready(connection):
                    _failed_at.pop(host, None)
                    return connection
                failures.append(f"{host}: the node is not ready, not in the primary component, or not the primary node")
                connection.close()
            except MySQLdb.Error as error:
                failures.append(f"{host}: {error}")
            _failed_at[host] = clock.monotonic()
        raise MySQLdb.OperationalError(2003, f"no host can be used: {'; '.join(failures)}")

    def _connect(self, host: Host, conn_params: dict[str, Any]) -> Any:
        return super().get_new_connection({**conn_params, "host": host.name, "port": host.port})

    def is_usable(self) -> bool:
        with contextlib.suppress(DatabaseError, MySQLdb.Error):
            return bool(super().is_usable()) and _is_ready(self.connection)
        return False


def _has_failed_lately(host: Host) -> bool:
    return host in _failed_at and clock.monotonic() - _failed_at[host] < AVOIDED_FOR


def _parsed(text: str, usual_port: int) -> Host:
    name, colon, port = text.rpartition(":")
    if not colon:
        return Host(text, usual_port)
    if not port.isdecimal():
        raise ImproperlyConfigured(f"OPTIONS['hosts']: {text!r} is not a 'host:port'")
    return Host(name.strip("[]"), int(port))


def _is_ready(connection: Any) -> bool:
    """Return whether the node accepts writes; a server outside of a cluster does, unless it is set to be read only.

    A node of Group Replication is, if it has left the others, or another one is the primary node.
    """
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(_READY)
        status = dict(cursor.fetchall())
        if status.get("wsrep_provider_name"):
            return bool(status.get("wsrep_ready") == "ON")
        cursor.execute(_WRITES_NOTHING)
        return not cursor.fetchall()

"""The vendors of databases whose SQL this package writes, and those that understand another one's."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

SPEAKS: Final = {"cockroachdb": "postgresql", "yugabyte": "postgresql"}
"""By the vendor that a backend names: the one whose statements it is sent, without notices and without SKIP LOCKED."""


def vendor_of(connection: "BaseDatabaseWrapper") -> str:
    """Return the vendor whose statements this connection's server understands: "mysql", "postgresql" or "sqlite"."""
    return SPEAKS.get(connection.vendor, connection.vendor)

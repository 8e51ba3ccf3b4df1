"""The check that a session does what the statements of this library rely on (docs/decisions/0032)."""

from collections.abc import Iterator
from contextlib import suppress

from django.core.checks import CheckMessage, Error
from django.db import Error as DriverError
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.checks.charsets import rows
from django_delayed_tasks.store.rehearsal import rehearse
from django_delayed_tasks.store.sql.transactions import in_transaction
from django_delayed_tasks.vendors import vendor_of

USUAL = {
    "mysql": {
        "transaction_read_only": "OFF", "tx_read_only": "OFF", "sql_big_selects": "ON", "completion_type": "NO_CHAIN",
        "max_statement_time": "0.000000", "max_execution_time": "0", "max_join_size": str(2**64 - 1),
    },
    "postgresql": {
        "transaction_read_only": "off", "default_transaction_read_only": "off", "statement_timeout": "0",
        "array_nulls": "on", "row_security": "on", "standard_conforming_strings": "on",
    },
    "sqlite": {"count_changes": "0", "query_only": "0", "trusted_schema": "1"},
}  # fmt: skip
"""By vendor: settings of a session that make it refuse statements or change their effect, and their usual values."""


def rehearsal_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield E009 if a statement of this library is refused, or has another effect."""
    is_with_autocommit = connection.in_atomic_block or not in_transaction(connection)  # otherwise, E008 says so
    if is_with_autocommit and (problem := rehearse(alias)):
        yield refused(alias, connection, problem)


def refused(alias: str, connection: BaseDatabaseWrapper, problem: str) -> CheckMessage:
    """Return E009; its hint names the settings that are known to do this, and differ from their usual values."""
    found: dict[str, str] = {}
    with suppress(DriverError):
        found = _unusual(connection)
    known = ", ".join(f"{name} = {value}" for name, value in sorted(found.items()))
    has = f"The session has {known}. Remove that" if known else "A setting of the session may be the cause. Remove it"
    return Error(
        f"The sessions of the database {alias!r} do not do what the statements of this library need: {problem}",
        hint=f"{has} from DATABASES[{alias!r}]['OPTIONS'], or from the database's user, the database or the server.",
        id="django_delayed_tasks.E009",
    )


def _unusual(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Return the settings of the session that have another value than the usual one."""
    usual = USUAL[vendor_of(connection)]
    names = ", ".join(f"'{name}'" for name in usual)
    if connection.vendor == "sqlite":
        values = [(name, str(rows(connection, f"PRAGMA {name}")[0][0])) for name in usual]
    elif connection.vendor == "mysql":
        values = rows(connection, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    else:
        values = [(name, rows(connection, f"SHOW {name}")[0][0]) for name in usual]
    return {name: value for name, value in values if value != usual[name.lower()]}

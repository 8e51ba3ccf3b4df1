"""The check that a session does what the statements of this library rely on (docs/decisions/0032)."""

from collections.abc import Iterator
from contextlib import suppress

from django.core.checks import CheckMessage, Error
from django.db import Error as DriverError
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.rehearsal import rehearse
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import in_transaction


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
    usual = dialect_of(connection).usual_settings
    found = dialect_of(connection).settings_of_session(list(usual))
    return {name: value for name, value in found.items() if value != usual[name.lower()]}

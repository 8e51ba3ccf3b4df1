"""The migrations that a database still needs for this version of the library, and what commands say of them."""

from contextlib import suppress

from django.db import Error, connections
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _

from django_delayed_tasks import api
from django_delayed_tasks.support.visible import visible_lines


def unapplied(alias: str) -> list[str]:
    """Return the names of this app's migrations that are not applied to the database.

    Raises:
        DatabaseError: the database cannot be reached.
    """
    executor = MigrationExecutor(connections[alias])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "django_delayed_tasks"]
    return [migration.name for migration, _backwards in executor.migration_plan(targets)]


def migrate_first(alias: str) -> str:
    """Return the message that migrations are not applied to the database, "" if all are.

    Raises:
        DatabaseError: the database cannot be reached.
    """
    text = _("unapplied migrations on database %(alias)r: %(names)s. Run `manage.py migrate` first.")
    missing = unapplied(alias)
    return text % {"alias": alias, "names": ", ".join(missing)} if missing else ""


def text_of(error: Exception, using: str | None) -> str:
    """Return what a command says of an error: its text or, if the database lacks migrations, the advice to migrate."""
    alias = api.database(using)
    # A database that cannot be reached is not asked a second time, which may take as long again.
    if isinstance(error, Error) and connections[alias].connection is not None:
        with suppress(Exception):  # such as of another app's migrations: the error itself is told
            return migrate_first(alias) or visible_lines(str(error))
    return visible_lines(str(error))

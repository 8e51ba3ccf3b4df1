"""The migrations that a database still needs for this version of the library."""

from django.db import connections
from django.db.migrations.executor import MigrationExecutor


def unapplied(alias: str) -> list[str]:
    """Return the names of this app's migrations that are not applied to the database.

    Raises:
        DatabaseError: the database cannot be reached.
    """
    executor = MigrationExecutor(connections[alias])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "django_delayed_tasks"]
    return [migration.name for migration, _ in executor.migration_plan(targets)]

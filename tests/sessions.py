"""The server's sessions with the test database."""

from typing import Any

from django.db import connection

OURS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend'",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE db = DATABASE()",
    # MySQL fails to read information_schema's list while a statement of any session has an emoji in it.
    "mysql": "SELECT processlist_id FROM performance_schema.threads WHERE processlist_db = DATABASE()",
}
OWN = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}


def is_mysql() -> bool:
    """Return whether the server is MySQL and not MariaDB, which has the same vendor."""
    return connection.vendor == "mysql" and not getattr(connection, "mysql_is_mariadb", False)


def sessions() -> set[Any]:
    """Return the ids of all sessions with the test database, that of this thread too; none on SQLite."""
    if connection.vendor == "sqlite":
        return set()
    with connection.cursor() as cursor:
        cursor.execute(OURS["mariadb" if connection.vendor == "mysql" and not is_mysql() else connection.vendor])
        return {number for (number,) in cursor.fetchall()}


def other_sessions() -> set[Any]:
    """Return the ids of the sessions with the test database other than the one of this thread; none on SQLite."""
    if connection.vendor == "sqlite":
        return set()
    with connection.cursor() as cursor:
        cursor.execute(OWN[connection.vendor])
        own = cursor.fetchone()
    return sessions() - set(own)

"""The oldest open transaction of a database, which keeps the server from clearing away what has been deleted since."""

from datetime import timedelta
from typing import Any, Final

from django.db import DatabaseError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.transactions import in_one_statement

_QUERIES: Final = {
    # The server shows the start in its own zone.
    "mysql": "SELECT TIMESTAMPDIFF(SECOND, CONVERT_TZ(trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()),"
    " trx_mysql_thread_id FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 1",
    "postgresql": "SELECT EXTRACT(EPOCH FROM clock_timestamp() - xact_start), pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL"
    " AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1",
}


def oldest_transaction(alias: str) -> tuple[timedelta, int] | None:
    """Return how long the oldest transaction has been open, and the id of its session on the server.

    None: there is none, this database does not tell, or its user may not ask.
    """
    query = _QUERIES.get(connections[alias].vendor)
    if query is None:
        return None

    def read(cursor: CursorWrapper) -> Any:
        cursor.execute(query)
        return cursor.fetchone()

    try:
        found = in_one_statement(alias, read)
    except DatabaseError:  # the privilege PROCESS is missing
        return None
    return (timedelta(seconds=float(found[0])), int(found[1])) if found and found[0] is not None else None

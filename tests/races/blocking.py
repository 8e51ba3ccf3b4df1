"""Knowing that another connection waits for a lock that this one holds."""

import random
import time
from typing import Any

from django.db import connection

from tests.sessions import is_mysql, sessions
from tests.threads import DatabaseThread

PATIENCE = 30.0  # seconds
WAITING = {
    "postgresql": "SELECT pid FROM pg_stat_clear_snapshot(), pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mysql": "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}
# MySQL fails to read its innodb_trx while a statement of any session has an emoji in it, and the threads that its lists
# of locks name may have ended.
WAITING_ON_MYSQL = (
    "SELECT COUNT(DISTINCT engine_transaction_id) FROM performance_schema.data_locks"
    " WHERE lock_status = 'WAITING' AND object_schema = DATABASE()"
)
# Seconds: MariaDB shows a copy of innodb_trx until no session has asked for a tenth of a second. Two that ask at a
# steady pace, in tests that run side by side, would see the old one for ever.
REFRESHED = (0.11, 0.5)


def wait_until_blocked(*threads: DatabaseThread[Any]) -> None:
    """Return when each of the threads waits for a lock.

    SQLite cannot tell, but has one lock: each writer waits for this transaction, now or in a moment.
    """
    deadline = time.monotonic() + PATIENCE
    while connection.vendor in WAITING and waiting() < len(threads):
        ended = [thread for thread in threads if not thread.is_alive()]
        assert not ended, f"{ended} did not wait: {[thread.result() for thread in ended]}"
        assert time.monotonic() < deadline, f"{threads} do not wait for a lock"
        time.sleep(random.uniform(*REFRESHED) if connection.vendor == "mysql" and not is_mysql() else 0.01)
    assert all(thread.is_alive() for thread in threads)


def wait_until_passed_by(thread: DatabaseThread[Any]) -> None:
    """Return when the thread is done, although this transaction has rows locked; on SQLite it has to wait for it."""
    if connection.vendor in WAITING:
        thread.result(PATIENCE)
    else:
        wait_until_blocked(thread)


def waiting() -> int:
    """Return how many connections to this database wait for a lock."""
    with connection.cursor() as cursor:
        if is_mysql():
            cursor.execute(WAITING_ON_MYSQL)
            return int(cursor.fetchone()[0])
        cursor.execute(WAITING[connection.vendor])
        waiting = {pk for [pk] in cursor.fetchall()}
    return len(waiting & sessions())

"""The listeners of this test's database, whatever the way of notices on it."""

import json
import os
from typing import Any

from django.db import OperationalError, connection

from django_delayed_tasks.store.notices import mysql, postgres, sqlite

UNKNOWN_SESSION = 1094
CAN_BE_CUT = connection.vendor != "sqlite"


def listening() -> list[Any]:
    """What identifies each listener: a connection's id on a server, a socket's name on SQLite."""
    if connection.vendor == "postgresql":
        return _of_postgres()
    return _of_mysql() if connection.vendor == "mysql" else _of_sqlite()


def _of_postgres() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = %s",
            [f"LISTEN {postgres.CHANNEL}"],
        )
        return [pid for (pid,) in cursor.fetchall()]


def _of_mysql() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW FULL PROCESSLIST")
        names = [column[0].lower() for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    sleeps = f"SELECT SLEEP({mysql.SLEEP})"
    here = connection.settings_dict["NAME"]
    return [row["id"] for row in rows if row["db"] == here and (row["info"] or "").startswith(sleeps)]


def _of_sqlite() -> list[str]:
    folder = os.path.realpath(connection.settings_dict["NAME"]) + sqlite.SUFFIX
    return os.listdir(folder) if os.path.isdir(folder) else []


def cut(listeners: list[int]) -> None:
    """End these listeners' connections from the server's side."""
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            for listener in listeners:
                try:
                    cursor.execute(f"KILL CONNECTION {listener:d}")
                except OperationalError as error:
                    if error.args[0] != UNKNOWN_SESSION:  # its sleep has just ended
                        raise
        else:
            cursor.execute(
                "SELECT pg_terminate_backend(pid::int) FROM json_array_elements_text(%s::json) pid",
                [json.dumps(listeners)],
            )

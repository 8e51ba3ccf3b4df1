"""Writes are refused for a while: the disk is full, or the database is read-only."""

import contextlib
import random
import resource
from typing import TYPE_CHECKING

from django.db import DatabaseError, connection

from harness.torture.faults.base import Fault, in_mix
from harness.torture.faults.processes import workers_of

if TYPE_CHECKING:
    from harness.torture.world import World

WRITTEN = ("django_delayed_tasks_task", "django_delayed_tasks_taskrun", "torture_effect")
LOCK_PATIENCE = 5  # seconds that a DDL statement of ours may wait, and others behind it


class Refusal(Fault):
    """While it lasts the server refuses writes with an error."""

    def __init__(self) -> None:
        self._goes_on = False

    def inject(self, world: "World", chance: random.Random) -> bool:
        self._goes_on = True
        try:
            self._begin(world)
        except DatabaseError:  # another transaction holds a lock for long
            connection.close()
            self.heal(world)
            return False
        return True

    def heal(self, world: "World") -> None:
        if self._goes_on:
            self._end(world)
            self._goes_on = False

    def _begin(self, world: "World") -> None:
        raise NotImplementedError

    def _end(self, world: "World") -> None:
        raise NotImplementedError


@in_mix
class DiskFull(Refusal):
    """The errors of a full disk: from triggers on a server (1114, 53100), from the kernel on SQLite (EFBIG)."""

    kind = "disk full"
    databases = frozenset({"sqlite", "mariadb", "mysql", "postgres"})
    weight = 0.7
    lasts = 2.0

    def _begin(self, world: "World") -> None:
        if connection.vendor == "sqlite":
            limit_files(world, 0)
        else:
            execute([sql for table in WRITTEN for sql in _full(table)])

    def _end(self, world: "World") -> None:
        if connection.vendor == "sqlite":
            limit_files(world, resource.RLIM_INFINITY)
        else:
            execute([sql for table in WRITTEN for sql in _no_longer_full(table)], tries=10)


def execute(statements: list[str], tries: int = 1) -> None:
    """DDL, which waits for locks for some seconds only: others wait behind it."""
    for left in reversed(range(tries)):
        try:
            with connection.cursor() as cursor:
                cursor.execute(_WAIT[connection.vendor].format(seconds=LOCK_PATIENCE))
                for statement in statements:
                    cursor.execute(statement)
            return
        except DatabaseError:
            connection.close()
            if not left:
                raise


_WAIT = {"mysql": "SET SESSION lock_wait_timeout = {seconds}", "postgresql": "SET lock_timeout = '{seconds}s'"}


def _full(table: str) -> list[str]:
    if connection.vendor == "mysql":
        signal = f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table ''{table}'' is full'"
        return [
            f"CREATE TRIGGER torture_full_{event}_{table} BEFORE {event} ON {table} FOR EACH ROW {signal}"
            for event in ("INSERT", "UPDATE")
        ]
    return [
        "CREATE OR REPLACE FUNCTION torture_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION"
        " 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
        f"CREATE TRIGGER torture_full_{table} BEFORE INSERT OR UPDATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION torture_full()",
    ]


def _no_longer_full(table: str) -> list[str]:
    if connection.vendor == "mysql":
        return [f"DROP TRIGGER IF EXISTS torture_full_{event}_{table}" for event in ("INSERT", "UPDATE")]
    return [f"DROP TRIGGER IF EXISTS torture_full_{table} ON {table}"]


def limit_files(world: "World", size: int) -> None:
    """Limit the size of all files that an executor writes; with 0 no file can grow at all."""
    for executor in world.cluster.executors.values():
        for pid in workers_of(executor) if executor.is_alive else ():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@in_mix
class ReadOnly(Refusal):
    """The server becomes read-only, as when a replica is promoted in its place. The driver is refused as well."""

    kind = "database read-only"
    databases = frozenset({"mysql", "postgres"})  # MariaDB exempts our account: see the scenario's
    weight = 0.7
    lasts = 3.0

    def _begin(self, world: "World") -> None:
        self._set(True)

    def _end(self, world: "World") -> None:
        self._set(False)

    def _set(self, is_on: bool) -> None:
        with connection.cursor() as cursor:
            for statement in _READ_ONLY[is_on][connection.vendor]:
                cursor.execute(statement)


_READ_ONLY = {
    True: {
        "mysql": ["SET GLOBAL super_read_only = ON"],
        "postgresql": ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"],
    },
    False: {
        "mysql": ["SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"],
        "postgresql": ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"],
    },
}


class ReadOnlyForUsers(ReadOnly):
    """MariaDB: read-only for all accounts without READ ONLY ADMIN, such as the one in the executors' URL."""

    databases = frozenset({"mariadb"})

    def _set(self, is_on: bool) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL read_only = {int(is_on)}")


def user_without_privileges(url: str) -> str:
    """The URL for a new account that may use the tables and nothing else."""
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE USER IF NOT EXISTS 'ddt_user'@'%' IDENTIFIED BY 'ddt'")
        cursor.execute(f"GRANT ALL ON {name}.* TO 'ddt_user'@'%'")
    return url.replace("//ddt:", "//ddt_user:")

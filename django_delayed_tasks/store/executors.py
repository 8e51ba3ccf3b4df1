"""The executors' own rows: registered, renewed, ended, declared dead."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import NameInUse, TaskException
from django_delayed_tasks.models import Executor
from django_delayed_tasks.store.sql.charsets import CHARSET, narrow_session
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import EXECUTOR
from django_delayed_tasks.store.sql.transactions import atomically, decisively


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an executor is: a stable name, where it runs, and what it serves (``queues`` None: all)."""

    name: str
    host: str
    pid: int
    threads: int
    codes: tuple[str, ...]
    queues: tuple[str, ...] | None = None


def register(alias: str, identity: Identity, lease: timedelta, is_gone: Callable[[str, int], bool]) -> int:
    """A fresh id for this incarnation. A dead predecessor of the same name is declared dead at once.

    ``is_gone(host, pid)`` tells whether that process is known to have ended.

    Raises:
        NameInUse: another live process has the name.
        TaskException: this connection loses characters, so that handlers would not get what was added.
    """
    if narrow := narrow_session(connections[alias]):
        raise TaskException(f"the connection to {alias!r} has {narrow}: 'charset' must be {CHARSET!r} in its OPTIONS")

    def write(_: CursorWrapper) -> int:
        _depose(alias, identity.name, is_gone)
        return _insert(alias, identity, lease)

    try:
        return atomically(alias, write)
    except IntegrityError:
        raise NameInUse(f"another executor has just taken the name {identity.name!r}") from None


def _depose(alias: str, name: str, is_gone: Callable[[str, int], bool]) -> None:
    now = dialect_of(connections[alias]).now
    with connections[alias].cursor() as cursor:
        declare_expired_dead(cursor, alias)
        cursor.execute(f"SELECT id, host, pid FROM {EXECUTOR} WHERE name = %s AND alive = TRUE", [name])
        for executor, host, pid in cursor.fetchall():
            if not is_gone(host, pid):
                raise NameInUse(f"the name {name!r} belongs to a live executor: host {host}, process {pid}")
            cursor.execute(f"UPDATE {EXECUTOR} SET alive = NULL, expires_at = {now} WHERE id = {executor:d}")


def _insert(alias: str, identity: Identity, lease: timedelta) -> int:
    with connections[alias].cursor() as cursor:
        dialect = dialect_of(connections[alias])
        cursor.execute(f"SELECT {dialect.now}")
        now = dialect.to_datetime(cursor.fetchone()[0])
    row = Executor(
        name=identity.name, host=identity.host, pid=identity.pid, threads=identity.threads,
        codes=sorted(identity.codes), queues=sorted(identity.queues) if identity.queues is not None else None,
        started_at=now, heartbeat_at=now, expires_at=now + lease, alive=True,
    )  # fmt: skip
    row.save(using=alias, force_insert=True)
    return row.pk


def renew(alias: str, executor: int, lease: timedelta) -> bool:
    """Renew the lease; False when this executor was declared dead."""
    dialect = dialect_of(connections[alias])
    return _update(alias, executor, f"heartbeat_at = {dialect.now}, expires_at = {dialect.later(lease)}")


def retire(alias: str, executor: int) -> bool:
    """The executor ends in good order; False when it was declared dead before."""
    return _update(alias, executor, f"alive = NULL, expires_at = {dialect_of(connections[alias]).now}")


def _update(alias: str, executor: int, assignments: str) -> bool:
    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"UPDATE {EXECUTOR} SET {assignments} WHERE id = {executor:d} AND alive = TRUE")
        return bool(cursor.rowcount)

    return decisively(alias, write)


def declare_expired_dead(cursor: CursorWrapper, alias: str) -> int:
    """Executors past their lease are dead from now on; a late heartbeat finds it out. How many."""
    now = dialect_of(connections[alias]).now
    cursor.execute(f"UPDATE {EXECUTOR} SET alive = NULL WHERE alive = TRUE AND expires_at < {now}")
    return int(cursor.rowcount)


@dataclass(frozen=True, slots=True)
class Peer:
    """A live executor as the others see it."""

    id: int
    codes: frozenset[str]
    expires_at: datetime
    queues: frozenset[str] | None = None

    def serves(self, queue: str) -> bool:
        """As far as is known: which queues it leaves out of all is not."""
        return self.queues is None or queue in self.queues


def live(alias: str) -> list[Peer]:
    """The live executors in the order of their ids."""
    rows: Any = Executor.objects.using(alias).filter(alive=True).order_by("id")
    return [Peer(row.pk, _names(row.codes) or frozenset(), row.expires_at, _names(row.queues)) for row in rows]


def _names(value: Any) -> frozenset[str] | None:
    """None if it is no list of names: a row that was written by other means must not keep the others from reaping."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    return None


def purge_dead(alias: str, older_than: timedelta) -> int:
    """Delete rows of executors that ended longer ago than this; how many."""
    cutoff = dialect_of(connections[alias]).later(-older_than)

    def write(cursor: CursorWrapper) -> int:
        cursor.execute(f"DELETE FROM {EXECUTOR} WHERE alive IS NULL AND expires_at < {cutoff}")
        return int(cursor.rowcount)

    return atomically(alias, write)

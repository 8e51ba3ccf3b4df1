"""The executors' own rows: an executor registers, renews its lease, and retires; others declare it dead."""

from collections.abc import Callable, Collection
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
class Registration:
    """What an executor says of itself: its stable name, where it runs, what it serves (``queues`` None: all queues)."""

    name: str
    host: str
    pid: int
    threads: int
    codes: tuple[str, ...]
    queues: tuple[str, ...] | None = None


def register(alias: str, registration: Registration, lease: timedelta, is_gone: Callable[[str, int], bool]) -> int:
    """Register an executor and return its id; each registration gets a new id.

    A predecessor of the same name that has ended is declared dead at once. ``is_gone(host, pid)`` returns whether that
    process is known to have ended.

    Raises:
        NameInUse: another live process has the name.
        TaskException: this connection loses characters, so that handlers would not get what was added.
    """
    if narrow := narrow_session(connections[alias]):
        raise TaskException(f"the connection to {alias!r} has {narrow}: 'charset' must be {CHARSET!r} in its OPTIONS")

    def write(_: CursorWrapper) -> int:
        _depose(alias, registration.name, is_gone)
        return _insert(alias, registration, lease)

    try:
        return atomically(alias, write)
    except IntegrityError:
        raise NameInUse(f"another executor has just taken the name {registration.name!r}") from None


def _depose(alias: str, name: str, is_gone: Callable[[str, int], bool]) -> None:
    now = dialect_of(connections[alias]).now
    with connections[alias].cursor() as cursor:
        declare_expired_dead(cursor, alias)
        cursor.execute(f"SELECT id, host, pid FROM {EXECUTOR} WHERE name = %s AND alive = TRUE", [name])
        for executor, host, pid in cursor.fetchall():
            if not is_gone(host, pid):
                raise NameInUse(f"the name {name!r} belongs to a live executor: host {host}, process {pid}")
            cursor.execute(f"UPDATE {EXECUTOR} SET alive = NULL, expires_at = {now} WHERE id = {executor:d}")


def _insert(alias: str, registration: Registration, lease: timedelta) -> int:
    with connections[alias].cursor() as cursor:
        dialect = dialect_of(connections[alias])
        cursor.execute(f"SELECT {dialect.now}")
        now = dialect.to_datetime(cursor.fetchone()[0])
    row = Executor(
        name=registration.name, host=registration.host, pid=registration.pid, threads=registration.threads,
        codes=sorted(registration.codes),
        queues=None if registration.queues is None else sorted(registration.queues),
        started_at=now, heartbeat_at=now, expires_at=now + lease, alive=True,
    )  # fmt: skip
    row.save(using=alias, force_insert=True)
    return row.pk


def renew(alias: str, executor: int, lease: timedelta) -> bool:
    """Renew the lease; return False if this executor has been declared dead."""
    dialect = dialect_of(connections[alias])
    return _update(alias, executor, f"heartbeat_at = {dialect.now}, expires_at = {dialect.later(lease)}")


def retire(alias: str, executor: int) -> bool:
    """End the executor's lease as it shuts down; return False if it had been declared dead."""
    return _update(alias, executor, f"alive = NULL, expires_at = {dialect_of(connections[alias]).now}")


def _update(alias: str, executor: int, assignments: str) -> bool:
    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"UPDATE {EXECUTOR} SET {assignments} WHERE id = {executor:d} AND alive = TRUE")
        return bool(cursor.rowcount)

    return decisively(alias, write)


def declare_expired_dead(cursor: CursorWrapper, alias: str) -> int:
    """Declare executors dead whose lease has expired, and return their number; a late heartbeat finds out."""
    now = dialect_of(connections[alias]).now
    cursor.execute(f"UPDATE {EXECUTOR} SET alive = NULL WHERE alive = TRUE AND expires_at < {now}")
    return int(cursor.rowcount)


@dataclass(frozen=True, slots=True)
class Peer:
    """A live executor as other executors see it."""

    id: int
    codes: frozenset[str]
    expires_at: datetime
    queues: frozenset[str] | None = None

    def serves(self, queue: str) -> bool:
        """Return whether it serves the queue, as far as its row tells: the queues that it excludes are not in it."""
        return self.queues is None or queue in self.queues


def live(alias: str) -> list[Peer]:
    """Return the live executors, ordered by id."""
    rows: Any = Executor.objects.using(alias).filter(alive=True).order_by("id")
    return [Peer(row.pk, _names(row.codes) or frozenset(), row.expires_at, _names(row.queues)) for row in rows]


def names(alias: str, executors: Collection[int]) -> dict[int, str]:
    """Return the names of these executors by id; rows that have been purged are left out."""
    rows: Any = Executor.objects.using(alias).filter(pk__in=executors)
    return dict(rows.values_list("pk", "name"))


def _names(value: Any) -> frozenset[str] | None:
    """Return the names, or None if the value is not a list of names.

    A row that was written by other means must not keep the other executors from reaping.
    """
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    return None


def purge_dead(alias: str, older_than: timedelta) -> int:
    """Delete the rows of executors that ended longer ago than ``older_than``; return their number."""
    cutoff = dialect_of(connections[alias]).later(-older_than)

    def write(cursor: CursorWrapper) -> int:
        cursor.execute(f"DELETE FROM {EXECUTOR} WHERE alive IS NULL AND expires_at < {cutoff}")
        return int(cursor.rowcount)

    return atomically(alias, write)

"""The executors' own rows: an executor registers, renews its lease, and retires; others declare it dead."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from secrets import randbelow
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, connections
from django.db.backends.utils import CursorWrapper
from django.db.models.expressions import RawSQL

from django_delayed_tasks import __version__, clock
from django_delayed_tasks.exceptions import NameInUse, TaskException
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus
from django_delayed_tasks.store.sql.charsets import CHARSET
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import EXECUTOR
from django_delayed_tasks.store.sql.transactions import (
    atomically,
    decisive_write,
    delete_rows,
    in_one_statement,
    in_one_write,
    is_transient,
    read_rows,
)
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

_ID_BITS: Final = 52
"""The bits of an executor's id: JSON numbers are exact up to 53. Among a thousand ids, two are equal once in 10^10."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The description of an executor by itself: its stable name, where it runs, what it serves and what it is doing.

    ``queues``: None means all except ``exclude_queues``.
    """

    name: str
    host: str
    pid: int
    threads: int
    codes: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    exclude_queues: tuple[str, ...] = ()
    status: ExecutorStatus = ExecutorStatus.RUNNING


class DeadExecutor(NamedTuple):
    """An executor that was declared dead: its id, its name, where it ran, and what it was doing."""

    id: int
    name: str
    host: str
    pid: int
    status: int | None

    @property
    def end(self) -> ExecutorStatus:
        """How it ended: one that was stopping, and ended before it could write that it had stopped, is no crash."""
        return ExecutorStatus.STOPPED if self.status == ExecutorStatus.STOPPING else ExecutorStatus.CRASHED


class End(NamedTuple):
    """The end of an executor: its name, and how it ended."""

    name: str
    status: int | None


ANOTHER_NAME = "choose another name (--name)"
"""The end of messages about a name that is in use."""


def register(alias: str, registration: Registration, lease: timedelta, is_gone: Callable[[str, int], bool]) -> int:
    """Register an executor and return its id; each registration gets an id that no other one has had.

    A predecessor of the same name is declared dead if it has ended or its lease has expired, and no other executor is.
    ``is_gone(host, pid)`` returns whether that process is known to have ended.

    Raises:
        NameInUse: another live process has the name.
        TaskException: this connection loses characters, so that handlers would not get what was added.
    """
    if narrow := dialect_of(connections[alias]).lossy_charsets():
        raise TaskException(f"the connection to {alias!r} has {narrow}: 'charset' must be {CHARSET!r} in its OPTIONS")

    def write(cursor: CursorWrapper) -> tuple[list[DeadExecutor], int]:
        return _retire_predecessors(cursor, alias, registration.name, is_gone), _insert(alias, registration, lease)

    try:
        dead, executor = atomically(alias, write, _may_register_again)
    except IntegrityError:
        raise NameInUse(f"another executor has just taken the name {registration.name!r}; {ANOTHER_NAME}") from None
    _log(dead)
    return executor


def _may_register_again(error: BaseException) -> bool:
    """Return whether another try helps: it gets another id, or finds the executor that has taken the name."""
    return isinstance(error, IntegrityError) or is_transient(error)


def new_id() -> int:
    """Return an id for an executor: a random one, since a database that is set back would give its next ids twice.

    See docs/decisions/0031.
    """
    return 1 + randbelow(2**_ID_BITS - 1)


def _retire_predecessors(
    cursor: CursorWrapper, alias: str, name: str, is_gone: Callable[[str, int], bool]
) -> list[DeadExecutor]:
    dialect_of(connections[alias]).begin_writing(cursor, EXECUTOR)
    lapsed, dead = _lapsed(alias), []
    for predecessor in _find(cursor, lapsed + " AND name = %s", [name]):
        if _declare_dead(cursor, alias, predecessor, lapsed):
            dead.append(predecessor)
    for predecessor in _find(cursor, _LIVE + " AND name = %s", [name]):
        if not is_gone(predecessor.host, predecessor.pid):
            where = f"host {predecessor.host}, process {predecessor.pid}"
            raise NameInUse(f"the name {name!r} belongs to a live executor: {where}; {ANOTHER_NAME}, or stop that one")
        if _declare_dead(cursor, alias, predecessor, _LIVE):
            dead.append(predecessor)
    return dead


def _insert(alias: str, registration: Registration, lease: timedelta) -> int:
    with connections[alias].cursor() as cursor:
        now = dialect_of(connections[alias]).read_now(cursor)
    executor = new_id()
    row = Executor(
        id=executor, name=registration.name, host=registration.host, pid=registration.pid, threads=registration.threads,
        codes=sorted(registration.codes),
        queues=None if registration.queues is None else sorted(registration.queues),
        exclude_queues=sorted(registration.exclude_queues),
        started_at=now, heartbeat_at=now, expires_at=now + lease, alive=True, status=registration.status,
        version=__version__, host_time=clock.host_now(),
    )  # fmt: skip
    row.save(using=alias, force_insert=True)
    return executor  # seekdb reports 0 as the last inserted id, and Django sets the row's to that


def renew(alias: str, executor: int, lease: timedelta, status: ExecutorStatus = ExecutorStatus.RUNNING) -> bool:
    """Renew the lease and write what the executor is doing; return False if it has been declared dead."""
    dialect = dialect_of(connections[alias])

    def renewed() -> str:
        return (
            f"heartbeat_at = {dialect.now}, expires_at = {dialect.later(lease)}, status = {status:d},"
            f" host_time = {dialect.moment_literal(clock.host_now())}"
        )

    return _update(alias, executor, renewed)


def write_codes(alias: str, executor: int, codes: Collection[str]) -> None:
    """Write for which codes this executor has handlers."""
    in_one_write(alias, lambda _: Executor.objects.using(alias).filter(pk=executor).update(codes=sorted(codes)))


def retire(alias: str, executor: int) -> bool:
    """End the lease of an executor that has stopped; return False if it had been declared dead."""
    return _update(alias, executor, lambda: _ended(alias, ExecutorStatus.STOPPED))


def _ended(alias: str, how: ExecutorStatus) -> str:
    return f"alive = NULL, expires_at = {dialect_of(connections[alias]).now}, status = {how:d}"


def _update(alias: str, executor: int, assignments: Callable[[], str]) -> bool:
    """Write what ``assignments()`` returns; it is called for each try, since it contains the time of the try."""

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"UPDATE {EXECUTOR} SET {assignments()} WHERE id = {executor:d} AND alive = TRUE")
        return bool(cursor.rowcount)

    return decisive_write(alias, write)


def declare_expired_dead(alias: str, but: int = 0) -> list[DeadExecutor]:
    """Declare executors dead whose lease has expired, log and return them; a late heartbeat finds out.

    If several processes see the same lease expire, one of them returns the executor. ``but``: the id of the caller,
    which is alive.
    """
    lapsed = f"{_lapsed(alias)} AND id <> {but:d}"
    # Read first: an UPDATE of all would lock its range of the index, where heartbeats write.
    found = in_one_statement(alias, lambda cursor: _find(cursor, lapsed))
    dead = [one for one in found if in_one_write(alias, partial(_declare_dead, alias=alias, one=one, only=lapsed))]
    _log(dead)
    return dead


_LIVE = "alive = TRUE"


def _lapsed(alias: str) -> str:
    return f"{_LIVE} AND expires_at < {dialect_of(connections[alias]).now}"


def _find(cursor: CursorWrapper, condition: str, parameters: Sequence[Any] = ()) -> list[DeadExecutor]:
    cursor.execute(f"SELECT {', '.join(DeadExecutor._fields)} FROM {EXECUTOR} WHERE {condition}", parameters)
    return sorted(DeadExecutor(*row) for row in cursor.fetchall())


def _declare_dead(cursor: CursorWrapper, alias: str, one: DeadExecutor, only: str) -> bool:
    """Write how this executor ended, if ``only`` still holds; return whether it did."""
    cursor.execute(f"UPDATE {EXECUTOR} SET {_ended(alias, one.end)} WHERE id = {one.id:d} AND {only}")
    return bool(cursor.rowcount)


def _log(dead: Sequence[DeadExecutor]) -> None:
    for one in dead:
        how = "crashed" if one.end is ExecutorStatus.CRASHED else "was cut short as it stopped"
        logger.warning(
            "executor %s %s: its process %d on %s ended, or did not renew its lease",
            one.name, how, one.pid, one.host,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Peer:
    """A live executor as other executors see it."""

    id: int
    started_at: datetime
    codes: frozenset[str]
    expires_at: datetime
    queues: frozenset[str] | None = None
    exclude_queues: frozenset[str] = frozenset()

    def serves(self, queue: str) -> bool:
        """Return whether it serves the queue. The row of an older release does not have the excluded ones."""
        return queue not in self.exclude_queues and (self.queues is None or queue in self.queues)


def live(alias: str) -> list[Peer]:
    """Return the live executors, the one that started first at the beginning."""
    # For "alive=True", or for an order, SQLite would read the whole table.
    rows: Any = Executor.objects.using(alias).filter(alive__in=[True])
    return sorted((_peer(row) for row in rows), key=lambda peer: (peer.started_at, peer.id))


def _peer(row: Any) -> Peer:
    excluded = _names(row.exclude_queues) or frozenset()
    codes = _names(row.codes) or frozenset()
    return Peer(row.pk, row.started_at, codes, row.expires_at, _names(row.queues), excluded)


def names(alias: str, executors: Collection[int]) -> dict[int, str]:
    """Return the names of these executors by id; rows that have been purged are left out."""
    rows: Any = Executor.objects.using(alias).filter(pk__in=executors)
    return dict(rows.values_list("pk", "name"))


def ends_of(alias: str, executors: Collection[int | None]) -> dict[int | None, End]:
    """Return by id how these executors have ended; rows that have been purged are left out."""
    known = [executor for executor in executors if executor is not None]
    rows: Any = Executor.objects.using(alias).filter(pk__in=known, alive=None)
    return {pk: End(name, status) for pk, name, status in rows.values_list("pk", "name", "status")}


def codes_since(alias: str, period: timedelta) -> frozenset[str]:
    """Return the codes of all executors that are alive or whose lease ended less than ``period`` ago."""
    cutoff = dialect_of(connections[alias]).later(-period)
    rows: Any = Executor.objects.using(alias).filter(expires_at__gt=RawSQL(cutoff, ()))
    return frozenset().union(*(_names(codes) or () for codes in rows.values_list("codes", flat=True)))


def _names(value: Any) -> frozenset[str] | None:
    """Return the names, or None if the value is not a list of names.

    A row that was written by other means must not keep the other executors from reaping.
    """
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    return None


def purge_ended(alias: str, before: datetime, batch_size: int) -> int:
    """Delete the rows of executors that ended ``before``, the oldest ``batch_size`` of them; return their number."""
    ended = "alive IS NULL AND expires_at < %s"
    moment = dialect_of(connections[alias]).stored(before)
    sql = f"SELECT id FROM {EXECUTOR} WHERE {ended} ORDER BY expires_at LIMIT {batch_size:d}"
    return delete_rows(alias, EXECUTOR, [pk for (pk,) in read_rows(alias, sql, [moment])])

"""Resources: adding, leasing, renewing, releasing and changing them. Writes that follow from a lease are fenced."""

import os
import socket
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from django.db import DatabaseError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import Seen, unchanged
from django_delayed_tasks.store.sql.portions import portions
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import (
    MayTryAgain,
    atomically,
    briefly,
    decisive_write,
    decisively,
    in_one_statement,
    in_one_write,
    is_lock_timeout,
    is_transient_at_once,
    read_rows,
)

MUTEXES: Final = "ddt.mutex"
"""The pool that holds the mutexes."""
UNUSED: Final = timedelta(hours=1)
"""The time after which housekeeping deletes a key's slots and rate tokens: keys may be different each time."""

KEPT: Final = "at_least"
"""The holder of a mutex that was given back, and is not free before the end of its ``at_least``."""

FREE_NOW: Final = "holder = '', task_id = NULL, task_version = NULL"
"""The assignments to a resource that is no longer held."""


class WantedResource(NamedTuple):
    """The resource that a caller wants to lease: any one of a pool, or the one of this name."""

    pool: str
    name: str = ""


class Grant(NamedTuple):
    """One acquisition of one resource: while the row has these three values, the lease is the one that was granted.

    ``holder`` is unique: it tells two acquisitions apart even if a database has lost its last commits and a version is
    used a second time.
    """

    id: int
    version: int
    holder: str


class RenewalResult(NamedTuple):
    """Leases that were renewed, and leases whose rows stayed locked; a lease in neither set is lost."""

    held: set[Grant]
    locked: set[Grant]


Term = tuple[timedelta, datetime | None]
"""The duration of a lease: for its ttl, and at least until this moment."""


class Details(NamedTuple):
    """The part of a resource that its holder can see."""

    name: str
    payload: Any
    state: Any
    acquired_at: datetime


def add(alias: str, wanted: WantedResource, payload: Any = None) -> None:
    """Add the resource, or give an existing one this payload; whether it is held or disabled is not changed."""
    _upsert(alias, wanted, {"payload": payload})


def ensure(alias: str, wanted: WantedResource) -> None:
    """Add the resource if there is none; an existing one is not changed."""
    _upsert(alias, wanted, {})


def _upsert(alias: str, wanted: WantedResource, values: dict[str, Any]) -> None:
    now = in_one_statement(alias, dialect_of(connections[alias]).read_now)
    row = Resource(
        pool=wanted.pool, name=wanted.name, version=clock.as_micros(now) // 1000, busy_before=clock.EPOCH, **values
    )
    resources = Resource.objects.using(alias)
    if not values:
        decisive_write(alias, lambda _: resources.bulk_create([row], ignore_conflicts=True))
        return
    names_target = connections[alias].features.supports_update_conflicts_with_target
    target = ["pool", "name"] if names_target else None
    decisive_write(
        alias,
        lambda _: resources.bulk_create([row], update_conflicts=True, unique_fields=target, update_fields=list(values)),
    )


def remove(alias: str, wanted: WantedResource) -> bool:
    """Delete the resource, even if it is held; return whether there was one."""
    return _write(alias, f"DELETE FROM {RESOURCE} WHERE pool = %s AND name = %s", [*wanted]) > 0


def enable(alias: str, wanted: WantedResource, enabled: bool) -> bool:
    """Enable or disable the resource; a holder keeps it. Return whether there is one.

    A disabled resource is not leased.
    """
    sql = f"UPDATE {RESOURCE} SET enabled = %s WHERE pool = %s AND name = %s"
    return _write(alias, sql, [enabled, *wanted]) > 0


def take(alias: str, resource: tuple[int, int], holder: str, ttl: timedelta) -> Grant | None:
    """Lease the resource (id, version) to ``holder``; return None if it was taken or changed since it was read."""
    dialect = dialect_of(connections[alias])
    pk, version = resource
    sql = (
        f"{dialect.update(RESOURCE)} SET version = version + 1, busy_before = {dialect.later(ttl)}, holder = %s,"
        f" host = %s, pid = %s, acquired_at = {dialect.now}, renewed_at = {dialect.now}"
        f" WHERE id = %s AND version = %s AND enabled = TRUE AND busy_before <= {dialect.now}"
    )
    won = _write(alias, sql, [holder, socket.gethostname()[:255], os.getpid(), pk, version])
    return Grant(pk, version + 1, holder) if won else None


def details(alias: str, grant: Grant) -> Details | None:
    """Return the details of a resource that is held; None if it is no longer held."""
    condition, parameters = _held([grant])
    rows: Any = Resource.objects.using(alias).extra(where=[condition], params=parameters)
    found: Details | None = next(iter(rows.values_list("name", "payload", "state", "acquired_at")), None)
    return found and Details(*found)


def renew(
    alias: str,
    leases: Collection[tuple[Grant, timedelta]],
    kept_until: Mapping[Grant, datetime] = MappingProxyType({}),
) -> RenewalResult:
    """Renew each lease that has not expired, for its ttl from now. An expired lease is not revived.

    A lease in ``kept_until`` is renewed until that moment if it is later. Rows that another transaction has locked come
    last; each is waited for at most one second.
    """
    by_term: defaultdict[Term, list[Grant]] = defaultdict(list)
    for grant, ttl in leases:
        by_term[ttl, kept_until.get(grant)].append(grant)
    found = RenewalResult(set(), set())
    late: list[tuple[Grant, Term]] = []
    for term, grants in by_term.items():
        for some in map(list, portions(grants)):
            free = _unlocked(alias, some)
            found.held.update(_extend(alias, free, term))
            if len(free) < len(some):
                late += [(grant, term) for grant in sorted(_still_held(alias, set(some) - set(free)))]
    for grant, term in late:
        try:
            found.held.update(_extend_soon(alias, grant, term))
        except DatabaseError as error:
            if not is_lock_timeout(error):
                raise
            found.locked.add(grant)
    return found


def _unlocked(alias: str, grants: list[Grant]) -> list[Grant]:
    """Return the leases whose rows no other transaction has locked now, as far as the database can tell."""
    dialect = dialect_of(connections[alias])
    if not dialect.skip_locked:
        return grants
    condition, parameters = _held(grants)
    sql = f"SELECT id, version, holder FROM {dialect.by_key(RESOURCE)} WHERE {condition}{dialect.skip_locked}"
    return [Grant(*row) for row in read_rows(alias, sql, parameters)]


def _extend(alias: str, grants: list[Grant], term: Term) -> set[Grant]:
    dialect = dialect_of(connections[alias])
    ttl, kept_until = term
    until = dialect.later(ttl)
    if kept_until is not None:
        until = dialect.greatest(until, dialect.moment_literal(kept_until))
    assignments = f"renewed_at = {dialect.now}, busy_before = {until}"
    return _change(alias, grants, assignments, may_try_again=is_transient_at_once) if grants else set()


def _extend_soon(alias: str, grant: Grant, term: Term) -> set[Grant]:
    return briefly(alias, lambda _: _extend(alias, [grant], term))


def is_held(alias: str, grant: Grant) -> bool:
    """Return whether the lease is still held."""
    return bool(_still_held(alias, [grant]))


def release(alias: str, grant: Grant, kept_until: datetime | None = None) -> bool:
    """Release the resource; return False if it was no longer held.

    Before ``kept_until`` the lease ends, but the resource is not free: its holder is :data:`KEPT`, so that a renewal
    that is under way does not find the lease, and the resource becomes free at that moment by itself.
    """
    dialect = dialect_of(connections[alias])
    now = dialect.now
    if kept_until is None:
        return bool(_change(alias, [grant], f"busy_before = {now}, {FREE_NOW}"))
    until = dialect.moment_literal(kept_until)
    holder = f"CASE WHEN {until} > {now} THEN '{KEPT}' ELSE '' END"
    return bool(_change(alias, [grant], f"busy_before = {dialect.greatest(now, until)}, holder = {holder}"))


def quarantine(alias: str, grant: Grant, period: timedelta) -> bool:
    """Release the resource but do not lease it again for ``period``; return False if it was no longer held."""
    later = dialect_of(connections[alias]).later(period)
    return bool(_change(alias, [grant], f"busy_before = {later}, {FREE_NOW}"))


def save_state(alias: str, grant: Grant, state: str) -> bool:
    """Store the state (JSON text) for the next holder; return False if the resource was no longer held."""
    value = dialect_of(connections[alias]).json("%s")
    return bool(_change(alias, [grant], f"state = {value}", [state]))


def _change(
    alias: str, grants: list[Grant], assignments: str, values: Sequence[Any] = (), may_try_again: MayTryAgain = None
) -> set[Grant]:
    condition, parameters = _held(grants)
    now = dialect_of(connections[alias]).now
    update = dialect_of(connections[alias]).update(RESOURCE)
    sql = f"{update} SET {assignments} WHERE {condition} AND busy_before > {now}"
    changed = _write(alias, sql, [*values, *parameters], may_try_again)
    return set(grants) if changed == len(grants) else _still_held(alias, grants) if changed else set()


def _still_held(alias: str, grants: Collection[Grant]) -> set[Grant]:
    condition, parameters = _held(grants)
    now = dialect_of(connections[alias]).now

    def read(cursor: CursorWrapper) -> set[Grant]:
        sql = f"SELECT id, version, holder FROM {RESOURCE} WHERE {condition} AND busy_before > {now}"
        cursor.execute(sql, parameters)
        return {Grant(*row) for row in cursor.fetchall()}

    return decisively(alias, read)


def _held(grants: Collection[Grant]) -> tuple[str, list[Any]]:
    condition = " OR ".join(["(id = %s AND version = %s AND holder = %s)"] * len(grants))
    return f"({condition})", [value for grant in grants for value in grant]


def _write(alias: str, sql: str, parameters: Sequence[Any], may_try_again: MayTryAgain = None) -> int:
    def write(cursor: CursorWrapper) -> int:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)

    return decisive_write(alias, write, may_try_again)


LOOK_AHEAD: Final = 64
"""Free resources that are read at once, in the order in which they are looked at: the first of them mostly fits."""
BEFORE_ALL: Final = Resource(id=0, busy_before=clock.EPOCH)
"""The key that the first page comes after."""


def free_page_after(alias: str, pool: str, last: Resource) -> list[Resource]:
    """Return the next free resources after ``last``, least recently used first; fewer than ``LOOK_AHEAD`` at the end.

    They have a payload and a version. A resource that becomes free meanwhile comes on a later page, but one that is
    added or enabled meanwhile may be missed.
    """
    moment = dialect_of(connections[alias]).moment_literal(last.busy_before)
    # As one condition with OR, the resources that were never used would be read again with each page.
    found = _rows(alias, pool, f"busy_before = {moment} AND id > {last.id:d}", LOOK_AHEAD)
    return found + (
        _rows(alias, pool, f"busy_before > {moment}", LOOK_AHEAD - len(found)) if len(found) < LOOK_AHEAD else []
    )


def _rows(alias: str, pool: str, condition: str, count: int) -> list[Resource]:
    dialect = dialect_of(connections[alias])
    # By its statistics, MySQL would rather read the whole pool, or the whole table by its primary key.
    sql = (
        f"SELECT id, version, payload, busy_before FROM {dialect.by_index(RESOURCE, 'ddt_resource_lease')}"
        f" WHERE pool = %s AND enabled = TRUE AND busy_before <= {dialect.now} AND {condition}"
        f" ORDER BY busy_before, id LIMIT {count:d}"
    )
    rows: Any = Resource.objects.using(alias)
    return in_one_statement(alias, lambda _: list(rows.raw(sql, [pool])))


def enable_all(alias: str, seen: Collection[Seen], enabled: bool) -> list[int]:
    """Enable or disable these resources, in whatever version (each lease is a new one); a holder keeps its own."""
    return _change_seen(alias, _one_of([pk for pk, _ in seen]), "enabled = %s", [enabled])


def release_by_force(alias: str, seen: Collection[Seen]) -> list[int]:
    """End the leases, or quarantines, of resources in these versions. A holder finds out on its next use."""
    now = dialect_of(connections[alias]).now
    return _change_seen(alias, f"{unchanged(seen)} AND busy_before > {now}", f"busy_before = {now}, {FREE_NOW}")


def _change_seen(alias: str, condition: str, assignments: str, values: Sequence[Any] = ()) -> list[int]:
    dialect = dialect_of(connections[alias])

    def write(cursor: CursorWrapper) -> list[int]:
        dialect.begin_writing(cursor, RESOURCE)
        cursor.execute(f"SELECT id FROM {dialect.by_key(RESOURCE)} WHERE {condition} ORDER BY id{dialect.for_update}")
        found = [pk for (pk,) in cursor.fetchall()]
        if found:
            cursor.execute(f"{dialect.update(RESOURCE)} SET {assignments} WHERE {_one_of(found)}", values)
        return found

    return atomically(alias, write)


def delete_unchanged(alias: str, seen: Collection[Seen]) -> int:
    """Delete the rows that still have the version in which they were seen; return their number."""

    def delete(cursor: CursorWrapper) -> int:
        cursor.execute(f"{dialect_of(connections[alias]).delete(RESOURCE)} WHERE {unchanged(seen)}")
        return int(cursor.rowcount)

    return in_one_write(alias, delete) if seen else 0


def _one_of(ids: Collection[int]) -> str:
    return f"id IN ({', '.join(map(int.__repr__, ids))})"

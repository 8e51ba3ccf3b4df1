"""The wait queue for resources: waiters are served in id order, each taking the free resource at its place.

The queue decides only the order; whether a waiter wins a resource is decided by the version in ``resources.take``.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import DateTimeField, QuerySet
from django.db.models.expressions import RawSQL

from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources.resources import LOOK_AHEAD, WantedResource
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import RESOURCE, WAITER
from django_delayed_tasks.store.sql.transactions import (
    catch_up,
    decisive_write,
    in_one_statement,
    in_one_write,
    read_rows,
)

LAST: Final = 2**62
"""The place of a caller that is not in the wait queue: after every waiter."""


class View(NamedTuple):
    """The part of the wait queue that a caller sees.

    That is how many waiters are ahead of it, whether it is in the wait queue itself, and the free resources as
    (id, version), least recently used first.
    """

    ahead: int
    is_in_line: bool
    free: list[tuple[int, int]]


def queue_view(alias: str, wanted: WantedResource, place: int = LAST) -> View:
    """Return the wait queue and the free resources as seen from this place, in one statement that locks nothing."""
    now = dialect_of(connections[alias]).now
    only = " AND r.name = %s" if wanted.name else ""
    sql = (
        f"SELECT places, last, busy_before, id, version FROM (SELECT COUNT(*) AS places, MAX(w.id) AS last"
        f" FROM {WAITER} w WHERE w.pool = %s AND w.name = %s AND w.id <= %s AND w.expires_at > {now}) line"
        f" LEFT JOIN (SELECT r.busy_before, r.id, r.version FROM {RESOURCE} r"
        f" WHERE r.pool = %s{only} AND r.enabled = TRUE AND r.busy_before <= {now}"
        f" ORDER BY r.busy_before, r.id LIMIT {LOOK_AHEAD}) free ON 1 = 1"
    )
    rows = read_rows(alias, sql, [*wanted, place, *(wanted if wanted.name else wanted[:1])])
    free = sorted(row[2:] for row in rows if row[3] is not None)  # in no defined order, after the join
    places, last = rows[0][:2]
    return View(places - (last == place), last == place, [(pk, version) for _, pk, version in free])


def enter(alias: str, wanted: WantedResource, ttl: timedelta, place: int | None = None) -> int:
    """Enter the wait queue at its end, or at ``place`` again if that place was lost; return the place.

    It is kept for ``ttl`` unless it is renewed.
    """
    later: Any = RawSQL(dialect_of(connections[alias]).later(ttl), [], output_field=DateTimeField())

    def write(_: CursorWrapper) -> int:
        waiter = Waiter(pk=place, pool=wanted.pool, name=wanted.name, expires_at=later)
        with suppress(IntegrityError), transaction.atomic(using=alias):  # still there: late, but not lost
            waiter.save(using=alias, force_insert=True)
        return waiter.pk

    return in_one_write(alias, write)


def renew(alias: str, places: Collection[int], ttl: timedelta) -> None:
    """Keep these places for ``ttl`` from now."""
    later = dialect_of(connections[alias]).later(ttl)
    _by_id(alias, f"UPDATE {WAITER} SET expires_at = {later}", places)


def leave(alias: str, places: Collection[int]) -> None:
    """Give up these places."""
    _by_id(alias, f"DELETE FROM {WAITER}", places)


def pass_by(alias: str, wanted: WantedResource, place: int, count: int) -> None:
    """Remove the first ``count`` waiters from the queue, since they did not take what was theirs to take.

    A waiter that is still alive enters the queue again.
    """
    sql = f"SELECT id FROM {WAITER} WHERE pool = %s AND name = %s AND id < %s ORDER BY id LIMIT {count:d}"
    leave(alias, [pk for (pk,) in read_rows(alias, sql, [*wanted, place])])


def sweep(alias: str) -> int:
    """Delete the places of waiters that have died, which expired half a minute ago; return their number."""
    past = dialect_of(connections[alias]).later(-timedelta(seconds=30))
    expired = read_rows(alias, f"SELECT id FROM {WAITER} WHERE expires_at < {past} ORDER BY id LIMIT 1000")
    dead = [pk for (pk,) in expired]
    leave(alias, dead)
    return len(dead)


def exists(alias: str, wanted: WantedResource) -> bool:
    """Return whether there is a resource of this name, or any in the pool if no name is given, in whatever state."""
    catch_up(alias)
    return in_one_statement(alias, lambda _: _rows(alias, wanted).exists())


def holder_of(alias: str, wanted: WantedResource) -> Resource | None:
    """Return the row of the resource if it is held."""
    now = dialect_of(connections[alias]).now
    rows: Any = _rows(alias, wanted)
    return _first(alias, rows.extra(where=[f"holder <> '' AND busy_before > {now}"]))


def row_of(alias: str, wanted: WantedResource) -> Resource | None:
    """Return the row of the resource, held or not; it names the last holder's host and process."""
    return _first(alias, _rows(alias, wanted))


def _rows(alias: str, wanted: WantedResource) -> QuerySet[Resource]:
    named = {"name": wanted.name} if wanted.name else {}
    return Resource.objects.using(alias).filter(pool=wanted.pool, **named)


def _first(alias: str, rows: QuerySet[Resource]) -> Resource | None:
    return in_one_statement(alias, lambda _: rows.first())


def _by_id(alias: str, statement: str, places: Collection[int]) -> None:
    if not places:
        return
    ids = ", ".join(map(str, sorted(places)))

    def write(cursor: CursorWrapper) -> None:
        cursor.execute(f"{statement} WHERE id IN ({ids})")

    decisive_write(alias, write)

"""Whose turn it is: those who wait for resources stand in a line, and each takes the one that falls to its place.

The line only decides who is first; a resource is won or lost by the versions in ``resources.take``.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import IntegrityError, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import DateTimeField
from django.db.models.expressions import RawSQL

from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources.resources import Wanted
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import RESOURCE, WAITER
from django_delayed_tasks.store.sql.transactions import decisively, in_one_statement

if TYPE_CHECKING:
    from django.db.models import QuerySet

LOOK_AHEAD: Final = 64
"""Free resources that are looked at."""
LAST: Final = 2**62
"""The place of somebody who does not stand in the line: behind everybody."""
GONE: Final = timedelta(seconds=30)
"""A place is forgotten so long after it was last renewed."""


class View(NamedTuple):
    """What a contender sees: how many are ahead of it, whether it stands in line itself, and the free resources
    (id, version), least recently used first.
    """

    ahead: int
    is_in_line: bool
    free: list[tuple[int, int]]


def look(alias: str, wanted: Wanted, place: int = LAST) -> View:
    """The line and the resources as they are seen from this place; one statement, which locks nothing."""
    now = dialect_of(connections[alias]).now
    only = " AND r.name = %s" if wanted.name else ""
    sql = (
        f"SELECT places, last, busy_before, id, version FROM (SELECT COUNT(*) AS places, MAX(w.id) AS last"
        f" FROM {WAITER} w WHERE w.pool = %s AND w.name = %s AND w.id <= %s AND w.expires_at > {now}) line"
        f" LEFT JOIN (SELECT r.busy_before, r.id, r.version FROM {RESOURCE} r"
        f" WHERE r.pool = %s{only} AND r.enabled = TRUE AND r.busy_before <= {now}"
        f" ORDER BY r.busy_before, r.id LIMIT {LOOK_AHEAD}) free ON 1 = 1"
    )

    def read(cursor: CursorWrapper) -> View:
        cursor.execute(sql, [*wanted, place, *(wanted if wanted.name else wanted[:1])])
        rows = cursor.fetchall()  # in no certain order, after the join
        free = sorted(row[2:] for row in rows if row[3] is not None)
        places, last = rows[0][:2]
        return View(places - (last == place), last == place, [(pk, version) for _, pk, version in free])

    return in_one_statement(alias, read)


def enter(alias: str, wanted: Wanted, ttl: timedelta, place: int | None = None) -> int:
    """The last place in the line, kept for ``ttl`` unless renewed; or ``place`` again, if it was lost."""
    later: Any = RawSQL(dialect_of(connections[alias]).later(ttl), [], output_field=DateTimeField())

    def write(_: CursorWrapper) -> int:
        waiter = Waiter(pk=place, pool=wanted.pool, name=wanted.name, expires_at=later)
        with suppress(IntegrityError), transaction.atomic(using=alias):  # it is there: late, but not lost
            waiter.save(using=alias, force_insert=True)
        return waiter.pk

    return in_one_statement(alias, write)


def renew(alias: str, places: Collection[int], ttl: timedelta) -> None:
    """Keep these places."""
    later = dialect_of(connections[alias]).later(ttl)
    _by_id(alias, f"UPDATE {WAITER} SET expires_at = {later}", places)


def leave(alias: str, places: Collection[int]) -> None:
    """Wait no more."""
    _by_id(alias, f"DELETE FROM {WAITER}", places)


def pass_by(alias: str, wanted: Wanted, place: int, count: int) -> None:
    """Take the first ``count`` out of the line: they let pass what was theirs. Who lives comes back to it."""

    def read(cursor: CursorWrapper) -> list[int]:
        cursor.execute(
            f"SELECT id FROM {WAITER} WHERE pool = %s AND name = %s AND id < %s ORDER BY id LIMIT {count:d}",
            [*wanted, place],
        )
        return [pk for (pk,) in cursor.fetchall()]

    leave(alias, in_one_statement(alias, read))


def sweep(alias: str) -> int:
    """Forget the places of those who died waiting; how many."""
    past = dialect_of(connections[alias]).later(-GONE)

    def read(cursor: CursorWrapper) -> list[int]:
        cursor.execute(f"SELECT id FROM {WAITER} WHERE expires_at < {past} ORDER BY id LIMIT 1000")
        return [pk for (pk,) in cursor.fetchall()]

    dead = in_one_statement(alias, read)
    leave(alias, dead)
    return len(dead)


def exists(alias: str, wanted: Wanted) -> bool:
    """Whether there is such a resource, or one in the pool, whatever its state."""
    return _rows(alias, wanted).exists()


def holder_of(alias: str, wanted: Wanted) -> Resource | None:
    """The row of the resource of that name, if it is held."""
    now = dialect_of(connections[alias]).now
    rows: Any = _rows(alias, wanted)
    found: Resource | None = rows.extra(where=[f"holder <> '' AND busy_before > {now}"]).first()
    return found


def row_of(alias: str, wanted: Wanted) -> Resource | None:
    """The row of the resource of that name, which tells who held it last."""
    return _rows(alias, wanted).first()


def _rows(alias: str, wanted: Wanted) -> "QuerySet[Resource]":
    named = {"name": wanted.name} if wanted.name else {}
    return Resource.objects.using(alias).filter(pool=wanted.pool, **named)


def _by_id(alias: str, statement: str, places: Collection[int]) -> None:
    if not places:
        return
    ids = ", ".join(map(str, sorted(places)))

    def write(cursor: CursorWrapper) -> None:
        cursor.execute(f"{statement} WHERE id IN ({ids})")

    decisively(alias, write)

"""The resources that limits consist of: made when they are first needed, as many as the limit says."""

from collections.abc import Collection, Iterable

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.dialects import dialect_of
from django_delayed_tasks.store.fences import fence
from django_delayed_tasks.store.tables import RESOURCE
from django_delayed_tasks.store.transactions import in_one_statement

BATCH = 1000


def add_missing(alias: str, pool: str, names: Collection[str]) -> None:
    """Resources of these names; of one that is there, nothing is changed."""
    rows = [Resource(pool=pool, name=name, version=1, busy_before=clock.EPOCH) for name in sorted(names)]
    for start in range(0, len(rows), BATCH):
        _insert(alias, rows[start : start + BATCH])


def _insert(alias: str, rows: list[Resource]) -> None:
    resources = Resource.objects.using(alias)
    in_one_statement(alias, lambda _: resources.bulk_create(rows, ignore_conflicts=True))


def shape(alias: str, pool: str, size: int) -> None:
    """The pool has so many resources from now on. When it had more, those go that were free for longest."""
    names = set(Resource.objects.using(alias).filter(pool=pool).values_list("name", flat=True))
    if len(names) > size:
        _delete_some(alias, pool, len(names) - size)
    elif len(names) < size:
        # Some numbers may have gone before: the first free ones are taken.
        candidates = (f"#{number}" for number in range(1, len(names) + size + 1))
        add_missing(alias, pool, _first(size - len(names), (name for name in candidates if name not in names)))


def _first(count: int, names: Iterable[str]) -> list[str]:
    return [name for _, name in zip(range(count), names, strict=False)]


def _delete_some(alias: str, pool: str, count: int) -> None:
    def read(cursor: CursorWrapper) -> list[tuple[int, int]]:
        cursor.execute(
            f"SELECT id, version FROM {RESOURCE} WHERE pool = %s AND enabled = TRUE"
            f" ORDER BY busy_before, id LIMIT {count:d}",
            [pool],
        )
        return [(pk, version) for pk, version in cursor.fetchall()]

    surplus = in_one_statement(alias, read)

    def delete(cursor: CursorWrapper) -> None:
        cursor.execute(f"{dialect_of(connections[alias]).delete(RESOURCE)} WHERE {fence(surplus)}")

    if surplus:
        in_one_statement(alias, delete)

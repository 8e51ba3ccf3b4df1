"""The size of a limit's pool: its resources are created when they are first needed, as many as the limit says."""

from collections.abc import Collection
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.db.models import DateTimeField
from django.db.models.expressions import RawSQL

from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import in_one_write

if TYPE_CHECKING:
    from django.db.models import QuerySet

BATCH = 1000


def add_missing(alias: str, pool: str, names: Collection[str]) -> None:
    """Create resources of these names, which are free; one that exists already is left as it is."""
    # Free since now, and not since ever: otherwise housekeeping might delete them at once, as long unused.
    now: Any = RawSQL(dialect_of(connections[alias]).now, [], output_field=DateTimeField())
    rows = [Resource(pool=pool, name=name, version=1, busy_before=now) for name in sorted(names)]
    for start in range(0, len(rows), BATCH):
        _insert(alias, rows[start : start + BATCH])


def _insert(alias: str, rows: list[Resource]) -> None:
    resources = Resource.objects.using(alias)
    in_one_write(alias, lambda _: resources.bulk_create(rows, ignore_conflicts=True))


def shape(alias: str, pool: str, size: int, short: int | None = None) -> None:
    """Make ``size`` the number of enabled resources in the pool.

    With ``short``, the number of resources that callers lacked, the pool grows as it is used: by that number, and at
    least to twice its size, but not beyond ``size``.

    Shrinking disables the resources that have been free longest; growing enables those again, as they are, before
    creating new ones. No resource is deleted, so a held one is still counted after the size went down and up again.
    """
    rows: Any = Resource.objects.using(alias).filter(pool=pool).order_by("busy_before", "id")
    found = list(rows.values_list("id", "name", "enabled"))
    enabled = [pk for pk, _, is_enabled in found if is_enabled]
    disabled = [pk for pk, _, is_enabled in found if not is_enabled]
    wanted = size if short is None else min(size, len(enabled) + (short and max(short, len(enabled))))
    if len(enabled) > size:
        _enable(alias, enabled[: len(enabled) - size], False)
    elif len(enabled) < wanted:
        _enable(alias, disabled[: wanted - len(enabled)], True)
        names = {name for _, name, _ in found}
        add_missing(alias, pool, _unused(names, wanted - len(enabled) - len(disabled)))


def _unused(names: set[str], count: int) -> list[str]:
    numbers = (f"#{number}" for number in range(1, len(names) + count + 1))
    return list(islice((name for name in numbers if name not in names), max(0, count)))


def _enable(alias: str, ids: list[int], enabled: bool) -> None:
    resources = Resource.objects.using(alias)
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        in_one_write(alias, partial(_update, resources.filter(pk__in=some), enabled))


def _update(resources: "QuerySet[Resource]", enabled: bool, cursor: CursorWrapper) -> int:
    return resources.update(enabled=enabled)

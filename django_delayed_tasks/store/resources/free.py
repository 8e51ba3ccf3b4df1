"""The free resources of a pool with their payloads, a page at a time."""

from typing import Any, Final

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import in_one_statement

PAGE: Final = 100
BEFORE_ALL: Final = Resource(id=0, busy_before=clock.EPOCH)
"""What the first page comes after."""


def page_after(alias: str, pool: str, last: Resource) -> list[Resource]:
    """Return the next free resources after ``last``, least recently used first; fewer than ``PAGE`` at the end.

    They have a payload and a version. A resource that becomes free meanwhile comes on a later page, but one that is
    added or enabled meanwhile may be missed.
    """
    moment = clock.literal(connections[alias], last.busy_before)
    # As one condition with OR, the resources that were never used would be read again with each page.
    found = _rows(alias, pool, f"busy_before = {moment} AND id > {last.id:d}", PAGE)
    return found + (_rows(alias, pool, f"busy_before > {moment}", PAGE - len(found)) if len(found) < PAGE else [])


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

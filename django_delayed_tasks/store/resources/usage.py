"""The use of limits, for pages and commands: read, and nothing locked."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db import connections

from django_delayed_tasks.store.resources.slots import HOLDER, SLOTS
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.portions import MAX_PARTS, portions
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import read_rows


class SlotUse(NamedTuple):
    """The number of slots of a code that are held by runs, and of others that were taken a short time ago."""

    held: int
    recent: int


def slot_use(alias: str, codes: Iterable[str], since: datetime) -> dict[str, SlotUse]:
    """Return the use of the slots of these codes; ``since``: from when on a slot counts as taken a short time ago."""
    pools = [SLOTS + code for code in codes]
    if not pools:
        return {}
    recent = f"r.busy_before > {dialect_of(connections[alias]).moment_literal(since)}"
    sql = (
        f"SELECT r.pool, COUNT(t.id), SUM(CASE WHEN t.id IS NULL AND {recent} THEN 1 ELSE 0 END)"
        f" FROM {RESOURCE} r {HOLDER} WHERE r.pool IN ({', '.join(['%s'] * len(pools))}) GROUP BY r.pool"
    )
    rows = read_rows(alias, sql, pools)
    return {pool.removeprefix(SLOTS): SlotUse(int(held), int(taken)) for pool, held, taken in rows}


def first_free(alias: str, pools: Iterable[str]) -> dict[str, datetime]:
    """Return from when on a resource, or a rate token, of each pool is free; pools without an enabled one are left out.

    This moment has passed if one is free now.
    """
    dialect = dialect_of(connections[alias])
    enabled = f"{dialect.by_index(RESOURCE, 'ddt_resource_lease')} WHERE pool = %s AND enabled = TRUE"
    first = f"SELECT pool, busy_before FROM {enabled} ORDER BY busy_before, id LIMIT 1"
    found: dict[str, datetime] = {}
    for some in portions(sorted(pools), MAX_PARTS):
        rows = read_rows(alias, dialect.union([first] * len(some)), some)
        found |= {pool: dialect.to_datetime(moment) for pool, moment in rows}
    return found

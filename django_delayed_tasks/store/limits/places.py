"""The places where tasks of limited codes wait: levels of the open lane of a code, and of the lanes of its keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS, ClaimedTask, claimed
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import decisively

MOST_PLACES: Final = 50
"""The places that are read in one statement."""


class Place(NamedTuple):
    """A level of a lane; nothing claimable is expected in it before ``watermark`` (None if that is unknown)."""

    lane: str
    queue: str
    priority: int
    watermark: datetime | None = None


Found = dict[Place, list[ClaimedTask]]


def read_places(alias: str, executor: int, places: Mapping[Place, int], rescues_below: int | None = None) -> Found:
    """Return the first due tasks of these places, at most as many as given for each, as they will be once claimed."""
    dialect = dialect_of(connections[alias])
    statements, parameters = [], []
    columns = ("{number} AS place", *COLUMNS)
    for number, (place, limit) in enumerate(places.items()):
        request = ClaimRequest(
            executor, place.queue, place.priority, limit,
            watermark=place.watermark, rescues_below=rescues_below, lane=place.lane,
        )  # fmt: skip
        sql, values = candidates(dialect, request, [column.format(number=number) for column in columns])
        statements.append(sql)
        parameters += values
    sql = dialect.union(statements)

    def read(cursor: CursorWrapper) -> list[tuple[Any, ...]]:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

    found: Found = {place: [] for place in places}
    numbered = list(places)
    # On a cluster the node must have seen what others have blocked: they may count on this executor to look again.
    for number, *row in decisively(alias, read):
        found[numbered[number]].append(claimed(tuple(row), dialect, executor, newer=1))
    return found

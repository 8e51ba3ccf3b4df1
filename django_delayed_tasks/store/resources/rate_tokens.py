"""Rate tokens (``rate``): each start of a run leases a token for the rate's period; it comes back by the clock alone.

There are as many tokens as the rate allows starts in a period, so no period of this length, wherever it begins, has
more starts.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.resources import pool_size
from django_delayed_tasks.store.resources.resources import RESERVED
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import fence
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import decisively, in_one_statement

STARTS: Final = f"{RESERVED}starts."
"""The prefix of the tokens' pool names; the code follows."""


class Taken(NamedTuple):
    """How many rate tokens were taken, and the seconds until the next one is free, None if that is not known."""

    starts: int
    next_in: float | None


def shape_starts(alias: str, code: str, starts: int, period: timedelta) -> None:
    """Make ``starts`` the number of rate tokens of this code; each held one comes back within ``period`` from now."""
    pool_size.shape(alias, STARTS + code, starts)
    later = dialect_of(connections[alias]).later(period)

    def write(cursor: CursorWrapper) -> None:
        cursor.execute(
            f"UPDATE {RESOURCE} SET busy_before = {later} WHERE pool = %s AND enabled = TRUE AND busy_before > {later}",
            [STARTS + code],
        )

    in_one_statement(alias, write)


def take_starts(alias: str, code: str, period: timedelta, count: int) -> Taken:
    """Take up to ``count`` rate tokens for ``period``."""
    rows = _look(alias, STARTS + code, count)
    free = [(pk, version) for pk, version, wait in rows if wait <= 0]
    taken = _take(alias, free, period) if free else 0
    waits = [wait for _, _, wait in rows if wait > 0]
    return Taken(taken, min(waits, default=None))


def _look(alias: str, pool: str, count: int) -> list[tuple[int, int, float]]:
    """Return the tokens that are free first, in that order, as (id, version, seconds until it is free)."""
    dialect = dialect_of(connections[alias])

    def read(cursor: CursorWrapper) -> list[tuple[int, int, float]]:
        cursor.execute(
            f"SELECT id, version, busy_before, {dialect.now} FROM {RESOURCE} WHERE pool = %s AND enabled = TRUE"
            f" ORDER BY busy_before, id LIMIT {count:d}",
            [pool],
        )
        return [
            (pk, version, (dialect.to_datetime(busy_before) - dialect.to_datetime(now)).total_seconds())
            for pk, version, busy_before, now in cursor.fetchall()
        ]

    return in_one_statement(alias, read)


def _take(alias: str, free: list[tuple[int, int]], period: timedelta) -> int:
    dialect = dialect_of(connections[alias])
    sql = (
        f"{dialect.update(RESOURCE)} SET version = version + 1, busy_before = {dialect.later(period)}"
        f" WHERE {fence(free)}"
    )

    def write(cursor: CursorWrapper) -> int:
        cursor.execute(sql)
        return int(cursor.rowcount)

    return decisively(alias, write)

"""Tasks at the head of a level that cannot be run for a while are moved out of the way of those behind them."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming import ClaimRequest, candidates
from django_delayed_tasks.store.dialects import dialect_of
from django_delayed_tasks.store.fences import LAST_VERSION, Claim, fence, in_status
from django_delayed_tasks.store.tables import PENDING, TASK
from django_delayed_tasks.store.transactions import in_one_statement

HEAD: Final = 500
"""Tasks that are looked at."""
MANY: Final = 100
"""So many in the way cost a claim nothing to speak of."""
SPREAD: Final = 10
"""Moments over which they are spread."""

Seconds = tuple[float, float]
"""From, to."""


def put_off(alias: str, head: ClaimRequest, delays: dict[str, Seconds]) -> dict[str, int]:
    """Of the first due tasks of a level, those of the codes of ``delays`` become claimable later by so many seconds,
    if there are many of them; how many of each code there were.

    ``when`` stays what it is, and no attempt is counted.
    """
    found = _look(alias, replace(head, excluded=frozenset()))
    counts = dict.fromkeys(delays, 0)
    by_code: dict[str, list[Claim]] = {code: [] for code in delays}
    for task_id, version, code in found:
        if code in delays:
            counts[code] += 1
            by_code[code].append((task_id, version))
    for code, claims in by_code.items():
        if sum(counts.values()) >= MANY and claims:
            _postpone(alias, claims, delays[code])
    return counts


def _look(alias: str, head: ClaimRequest) -> list[tuple[int, int, str]]:
    sql, parameters = candidates(dialect_of(connections[alias]), head, HEAD, ("id", "version", "biz_code"))

    def read(cursor: CursorWrapper) -> list[tuple[int, int, str]]:
        cursor.execute(sql, parameters)
        return [(task_id, version, code) for task_id, version, code in cursor.fetchall()]

    return in_one_statement(alias, read)


def _postpone(alias: str, claims: list[Claim], delay: Seconds) -> None:
    dialect = dialect_of(connections[alias])
    first, last = delay
    size = -(-len(claims) // SPREAD)
    moments = " ".join(
        f"WHEN id IN ({', '.join(str(task_id) for task_id, _ in claims[start : start + size])})"
        f" THEN {dialect.later(timedelta(seconds=first + (last - first) * (start + size) / len(claims)))}"
        for start in range(0, len(claims), size)
    )
    sql = (
        f"{dialect.update(TASK)} SET claim_at = CASE {moments} END, version = version + 1"
        f" WHERE {in_status(PENDING)} AND version < {LAST_VERSION} AND {fence(claims)}"
    )

    def write(cursor: CursorWrapper) -> None:
        cursor.execute(sql)

    in_one_statement(alias, write)

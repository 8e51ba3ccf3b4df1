"""Claiming: due rows become RUNNING, in this executor's name, in a new version. Two ways, chosen by what was measured.

``skip_locked`` and ``compare_and_set`` do the same and pass the same tests; correctness rests on ``version`` in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS
from django_delayed_tasks.store.claiming.levels import rows_of
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.fences import LAST_VERSION
from django_delayed_tasks.store.sql.tables import RUNNING


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What one executor asks of one level.

    ``floor`` is a moment before which nothing claimable is expected (None: unknown); ``excluded`` are codes that this
    executor has no handler for; ``rank`` of ``executors`` is its place among the live ones. What is due within
    ``ahead`` counts as due; whoever claims it holds it until it is. ``only``: of the first ``limit`` those of this
    code, if any is named; no others are looked at for it. ``rescues_below``: none that was rescued so often; None: any.
    """

    executor: int
    queue: str
    priority: int
    limit: int
    floor: datetime | None = None
    excluded: frozenset[str] = field(default=frozenset())
    rank: int = 0
    executors: int = 1
    ahead: timedelta = timedelta()
    only: str = ""
    rescues_below: int | None = None

    def asks_for(self, biz_code: str) -> bool:
        """Whether it may be of this code."""
        return not self.only or biz_code == self.only


class Outpaced(Exception):
    """Others took every row that was read to be claimed: whether more are due is not known."""


def candidates(
    dialect: Dialect,
    request: ClaimRequest,
    columns: Sequence[str] = COLUMNS,
    share: str = "",
    direction: Literal["ASC", "DESC"] = "ASC",
) -> tuple[str, list[Any]]:
    """The SELECT of due rows of one level in the order of the claim index, or against it: it reads only what it
    returns. With the condition :func:`share`, the rows of others are looked at in the index only.
    """
    table, level, parameters, order = rows_of(dialect, request.queue, request.priority)
    conditions = [level, f"claim_at <= {dialect.later(request.ahead) if request.ahead else dialect.now}"]
    # What cannot be counted on (a row written by other means) would be an error, and nothing else be claimed for it.
    conditions.append(f"version < {LAST_VERSION} AND attempts < {2**31 - 1}")
    if request.floor:
        conditions.append(f"claim_at >= {dialect.moment_literal(request.floor)}")
    if request.excluded:
        conditions.append(f"biz_code NOT IN ({', '.join(['%s'] * len(request.excluded))})")
        parameters += sorted(request.excluded)
    if request.rescues_below is not None:
        conditions.append(f"rescues < {request.rescues_below:d}")
    if share:
        conditions.append(share)
    sql = (
        f"SELECT {', '.join(columns)} FROM {table} WHERE {' AND '.join(conditions)}"
        f" ORDER BY {', '.join(f'{column} {direction}' for column in (*order, 'claim_at', 'id'))}"
        f" LIMIT {request.limit:d}"
    )
    return sql, parameters


def taking(dialect: Dialect, executor: int) -> str:
    """The assignments of a claim."""
    return (
        f"status = {RUNNING}, version = version + 1, attempts = attempts + 1, executor = {executor:d},"
        f" update_time = {dialect.now}"
    )

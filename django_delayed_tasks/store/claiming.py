"""Claiming: due rows become RUNNING, in this executor's name, in a new version. Two ways, chosen by what was measured.

``skip_locked`` and ``compare_and_set`` do the same and pass the same tests; correctness rests on ``version`` in both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store import galera
from django_delayed_tasks.store.claims import COLUMNS, ClaimedTask
from django_delayed_tasks.store.dialects import Dialect
from django_delayed_tasks.store.fences import LAST_VERSION
from django_delayed_tasks.store.levels import rows_of
from django_delayed_tasks.store.tables import RUNNING


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


Strategy = Callable[[str, ClaimRequest], list[ClaimedTask]]
"""What it returns is claimed; nothing, when nothing is due. May raise :class:`Outpaced`."""


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


def strategy_for(alias: str, name: str) -> Strategy:
    """The strategy of this name; "auto" is the one that measured faster on this database.

    Raises:
        ValueError: the database cannot do it.
    """
    from django_delayed_tasks.store import compare_and_set, skip_locked, sole_writer

    connection = connections[alias]
    if name == "auto" and connection.vendor == "sqlite":
        return sole_writer.claim
    if name == "auto":
        name = "skip_locked" if _locks_cheaply(connection) else "compare_and_set"
    if name == "compare_and_set":
        return compare_and_set.claim
    if not connection.features.has_select_for_update_skip_locked:
        raise ValueError(f"database {alias!r} has no SKIP LOCKED; use CLAIM = 'auto' or 'compare_and_set'")
    if galera.is_galera(connection):
        raise ValueError(
            f"database {alias!r} is a Galera cluster, whose nodes know nothing of each other's locks;"
            " use CLAIM = 'auto' or 'compare_and_set'"
        )
    return skip_locked.claim


def _locks_cheaply(connection: BaseDatabaseWrapper) -> bool:
    # No flag says what a locking read costs: on InnoDB more than all the rest of a claim (docs/decisions/0003).
    return connection.vendor == "postgresql"

"""Claim requests: what an executor asks for, and the SQL that every claiming strategy shares.

A claim turns due rows RUNNING, in the executor's name, with a new version. All strategies do the same and pass the same
tests; which one a database gets was decided by measurement, and correctness rests on ``version`` in all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS, ClaimedTask, returned
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.fences import MAX_VERSION, unchanged
from django_delayed_tasks.store.sql.tables import RUNNING


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The request of one executor for tasks of one level.

    Attributes:
        watermark: a moment before which nothing claimable is expected; None if it is unknown.
        excluded: codes that this executor has no handler for.
        place: the executor's place among the ``executors`` live ones.
        ahead: tasks due within this time count as due; the executor that claims one holds it until it is due.
        only: if not empty, claim only tasks of this code, and only from the first ``limit`` due ones.
        rescues_below: claim only tasks with fewer rescues than this; None for any.
        lane: the lane to claim from.
    """

    executor: int
    queue: str
    priority: int
    limit: int
    watermark: datetime | None = None
    excluded: frozenset[str] = field(default=frozenset())
    place: int = 0
    executors: int = 1
    ahead: timedelta = timedelta()
    only: str = ""
    rescues_below: int | None = None
    lane: str = ""


MARGIN = timedelta(seconds=5)
"""The time by which a level's watermark is behind its earliest pending task. A row below it, of a transaction
that was committed late, is found by the next full scan."""
_FIRST = datetime.min.replace(tzinfo=UTC)


def watermark(moment: datetime) -> datetime:
    """Return the watermark of a level whose earliest pending task is claimable at ``moment``."""
    # Near datetime.min the subtraction would overflow.
    return moment - MARGIN if moment > _FIRST + MARGIN else _FIRST


class Outpaced(Exception):
    """Other executors took every row that this one tried to claim; due tasks may remain."""


def candidates(
    dialect: Dialect,
    request: ClaimRequest,
    columns: Sequence[str] = COLUMNS,
    share: str = "",
    direction: Literal["ASC", "DESC"] = "ASC",
) -> tuple[str, list[Any]]:
    """Return the SELECT for the due rows of one level, and its parameters.

    It follows the claim index, forwards or backwards, so it reads only the rows that it returns. With the condition
    ``share`` (see ``affinity.share``), rows of other executors are read in the index only.
    """
    table, level, parameters, order = dialect.rows_of(request.queue, request.priority, request.lane)
    conditions = [level, f"claim_at <= {dialect.later(request.ahead) if request.ahead else dialect.now}"]
    # Incrementing past the column's maximum (in a row written by other means) would fail the whole claim.
    conditions.append(f"version < {MAX_VERSION} AND attempts < {2**31 - 1}")
    if request.watermark:
        conditions.append(f"claim_at >= {dialect.moment_literal(request.watermark)}")
    if request.excluded:
        conditions.append(f"biz_code NOT IN ({', '.join(['%s'] * len(request.excluded))})")
        parameters += sorted(request.excluded)
    if request.rescues_below is not None:
        conditions.append(f"rescues < {request.rescues_below:d}")
    if share:
        conditions.append(share)
    sql = (
        f"SELECT {returned(dialect, columns)} FROM {table} WHERE {' AND '.join(conditions)}"
        f" ORDER BY {', '.join([f'{column} {direction}' for column in order])}"
        f" LIMIT {request.limit:d}"
    )
    return sql, parameters


def unclaimed(tasks: Iterable[ClaimedTask]) -> str:
    """Return the condition that the rows of these tasks are as they were before they are claimed."""
    return unchanged((task.id, task.version - 1) for task in tasks)


def taking(dialect: Dialect, executor: int) -> str:
    """Return the assignments that claim a row."""
    return (
        f"status = {RUNNING}, version = version + 1, attempts = attempts + 1, executor = {executor:d},"
        f" update_time = {dialect.now}"
    )

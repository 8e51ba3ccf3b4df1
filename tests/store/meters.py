"""What a piece of code costs a database: statements sent, rows and index entries looked at."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.store.sql.dialects import Column, dialect_of
from harness.database_pages import EXPLAINED

UNIT = {"sqlite": 100}
"""What one row may cost: on SQLite steps of its virtual machine are counted, elsewhere rows and index entries."""

TRANSACTION = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")


@dataclass
class Meter:
    """How much was looked at inside the block, and the plans of PostgreSQL that did, which a failed test shows."""

    total: int = 0
    plans: list[Any] = field(default_factory=list)


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements sent inside the block, without those that begin and end transactions."""
    sent: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield sent
    sent += [query["sql"] for query in captured.captured_queries if not query["sql"].startswith(TRANSACTION)]


@contextmanager
def reads() -> Iterator[Meter]:
    """Count what is looked at inside the block, without what a server is asked once in a process."""
    dialect_of(connection).table([Column("x", "int")], [[1]])
    meter = Meter()
    with _WAYS[connection.vendor](meter):
        yield meter


@contextmanager
def _by_steps(meter: Meter) -> Iterator[None]:
    def step() -> int:
        meter.total += 1
        return 0

    connection.ensure_connection()
    connection.connection.set_progress_handler(step, 1)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 1)


@contextmanager
def _by_handler_status(meter: Meter) -> Iterator[None]:
    before = _handler_reads()
    yield
    meter.total = _handler_reads() - before


def _handler_reads() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for name, value in cursor.fetchall() if name != "Handler_read_rnd_deleted")


@contextmanager
def _by_explaining(meter: Meter) -> Iterator[None]:
    """Run every statement under EXPLAIN first, and undo it."""

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.lstrip().startswith(EXPLAINED):
            with transaction.atomic():
                execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params, many, context)
                [[plan]] = context["cursor"].fetchall()
                transaction.set_rollback(True)
            [explained] = json.loads(plan) if isinstance(plan, str) else plan
            meter.plans.append(explained["Plan"])
            meter.total += _rows_of(explained["Plan"])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield


def _rows_of(node: dict[str, Any]) -> int:
    """Rows that the scans below this node of a plan looked at, kept or not."""
    below = sum(_rows_of(child) for child in node.get("Plans", ()))
    if not node["Node Type"].endswith("Scan") or ("Relation Name" not in node and "Index Name" not in node):
        return below
    dropped = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
    return below + int((node["Actual Rows"] + dropped) * node["Actual Loops"])


_WAYS = {"sqlite": _by_steps, "mysql": _by_handler_status, "postgresql": _by_explaining}

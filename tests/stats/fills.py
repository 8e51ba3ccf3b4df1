"""Rows of the rollup, as executors would have added them."""

from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.rollup import Cell
from tests.admin.rows import CODE, NOW


def cell(runs: int = 1, late: float | None = 0.02, took: float | None = 0.2) -> Cell:
    """A count of runs that are all alike; times in seconds."""
    made = Cell()
    for _ in range(runs):
        made.count(1, *([] if seconds is None else [timedelta(seconds=seconds)] for seconds in (late, took)))
    return made


def ended(
    runs: int = 1,
    at: datetime = NOW,
    code: str = CODE,
    outcome: RunOutcome = RunOutcome.DONE,
    error: str = "",
    **times: Any,
) -> None:
    """Count runs that ended at a moment."""
    rollup.add("default", {(code, int(outcome), error): cell(runs, **times)}, at)

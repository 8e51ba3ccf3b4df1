"""The effect of an upsert on an existing row: it replaces the schedule or, while the task runs, defers the new one."""

from collections.abc import Callable, Iterator
from functools import cache

from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.tables import CARRIED, FAILED, PENDING, RESET, RUNNING, STOPPING, TASK

_FORGOTTEN = ("by_handler", "pause_requested", "deferred_keeps_ext")
"""Columns that describe the schedule which the new one replaces."""
PREFERRING = (IfExists.EARLIEST, IfExists.LATEST)


_DEFERRED = {f"deferred_{column}": column for column in CARRIED} | {"deferred_when": "when_time"}


def preferred(if_exists: IfExists, when: str) -> str:
    """Return the condition that an existing row gets the new schedule, at ``when``, in place of its own."""
    than = "<" if if_exists is IfExists.EARLIEST else ">"
    return (
        f"(CASE {TASK}.status WHEN {FAILED} THEN 1 = 1 WHEN {RUNNING} THEN {TASK}.deferred_when IS NULL OR"
        f" {when} {than} {TASK}.deferred_when ELSE {when} {than} {TASK}.when_time END)"
    )


def replacement(new: Callable[[str], str]) -> str:
    """Return the assignments that give an existing row the new schedule, or defer it while the task is running.

    ``new(column)`` is the SQL of the new value. ``status`` comes last: MySQL evaluates assignments from left to right
    and sees the values already assigned.
    """
    assignments = [
        f"{column} = CASE WHEN {TASK}.status = {RUNNING} THEN {new(source)} ELSE {TASK}.{column} END"
        for column, source in _DEFERRED.items()
    ]
    assignments += [
        f"{column} = CASE WHEN {TASK}.status = {RUNNING} THEN {TASK}.{column} ELSE {value} END"
        for column, value in _instead(new).items()
    ]
    assignments.append(_anyway(new))
    assignments.append(f"status = CASE WHEN {TASK}.status = {RUNNING} THEN {RUNNING} ELSE {PENDING} END")
    return ", ".join(assignments)


def deferral_if_stopping(new: Callable[[str], str]) -> str:
    """Return the assignments that defer the new schedule if the row is STOPPING, and leave any other row as it is.

    ``deferred_when`` comes last: MySQL evaluates assignments from left to right and sees the values already assigned.
    """
    values = {"update_time": new("update_time")} | dict.fromkeys(_FORGOTTEN, "NULL")
    values |= {column: new(source) for column, source in _DEFERRED.items()}
    assignments = (
        f"{column} = CASE WHEN {STOPPING} THEN {value} ELSE {TASK}.{column} END" for column, value in values.items()
    )
    return ", ".join(assignments)


def _replacement_idle(new: Callable[[str], str]) -> str:
    """Return the same assignments for a row that is not running."""
    assignments = [f"{column} = {value}" for column, value in _instead(new).items()]
    return ", ".join([*assignments, _anyway(new), f"status = {PENDING}"])


def _instead(new: Callable[[str], str]) -> dict[str, str]:
    """Return the new expression for each column of a row that is not running."""
    columns = {column: new(column) for column in ("when_time", *CARRIED, "claim_at", "lane")}
    return columns | RESET | {"version": f"{TASK}.version + 1"}


def _anyway(new: Callable[[str], str]) -> str:
    return ", ".join([f"update_time = {new('update_time')}", *(f"{column} = NULL" for column in _FORGOTTEN)])


upserted = cache(replacement)
""":func:`replacement`, cached for each dialect's ``new``: it is half of the statement, and the same for every task."""
upserted_if_stopping = cache(deferral_if_stopping)
_upserted_idle = cache(_replacement_idle)


def conflicts(dialect: Dialect, if_exists: IfExists) -> Iterator[str]:
    """Yield the clauses to end an INSERT with, to be tried in turn until one changes a row.

    There are none if existing rows are to be left alone. Most rows are not running, and for these PostgreSQL plans the
    shorter first clause in much less time.
    """
    if if_exists is IfExists.REPLACE:
        yield f"{dialect.on_conflict(_upserted_idle(dialect.new))} WHERE {TASK}.status <> {RUNNING}"
        yield dialect.on_conflict(upserted(dialect.new))
    if if_exists in PREFERRING:
        only = preferred(if_exists, dialect.new("when_time"))
        yield f"{dialect.on_conflict(upserted(dialect.new))} WHERE {only}"

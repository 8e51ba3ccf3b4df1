"""What an upsert makes of the row that is there already: the new schedule instead of its own, or beside its run."""

from collections.abc import Callable, Iterator
from functools import cache

from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.tables import CARRIED, FAILED, PENDING, RESET, RUNNING, STOPPING, TASK

_FORGOTTEN = ("by_handler", "pause_requested", "deferred_keeps_ext")
"""What was said of the schedule that the new one takes the place of."""
PREFERRING = (IfExists.EARLIEST, IfExists.LATEST)


_DEFERRED = {f"deferred_{column}": column for column in CARRIED} | {"deferred_when": "when_time"}


def preferred(if_exists: IfExists, when: str) -> str:
    """Whether an existing row is to have the new schedule, at ``when``, rather than its own."""
    than = "<" if if_exists is IfExists.EARLIEST else ">"
    return (
        f"(CASE {TASK}.status WHEN {FAILED} THEN 1 = 1 WHEN {RUNNING} THEN {TASK}.deferred_when IS NULL OR"
        f" {when} {than} {TASK}.deferred_when ELSE {when} {than} {TASK}.when_time END)"
    )


def replacement(new: Callable[[str], str]) -> str:
    """The assignments that turn an existing row into the new schedule, or put it beside a run that is going on.

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


def rearmament(new: Callable[[str], str]) -> str:
    """The assignments that defer the new schedule where the row is STOPPING, and leave any other row as it is.

    ``deferred_when`` comes last: MySQL evaluates assignments from left to right and sees the values already assigned.
    """
    values = {"update_time": new("update_time")} | dict.fromkeys(_FORGOTTEN, "NULL")
    values |= {column: new(source) for column, source in _DEFERRED.items()}
    assignments = (
        f"{column} = CASE WHEN {STOPPING} THEN {value} ELSE {TASK}.{column} END" for column, value in values.items()
    )
    return ", ".join(assignments)


def _replacement_idle(new: Callable[[str], str]) -> str:
    """The same for a row that does not run."""
    assignments = [f"{column} = {value}" for column, value in _instead(new).items()]
    return ", ".join([*assignments, _anyway(new), f"status = {PENDING}"])


def _instead(new: Callable[[str], str]) -> dict[str, str]:
    """What becomes of each column of a row that does not run."""
    columns = {column: new(column) for column in ("when_time", *CARRIED, "claim_at")}
    return columns | RESET | {"version": f"{TASK}.version + 1"}


def _anyway(new: Callable[[str], str]) -> str:
    return ", ".join([f"update_time = {new('update_time')}", *(f"{column} = NULL" for column in _FORGOTTEN)])


upserted = cache(replacement)
"""The same for a dialect's ``new``: as long as all the rest of the statement, and the same for every task."""
upserted_if_stopping = cache(rearmament)
_upserted_idle = cache(_replacement_idle)


def conflicts(dialect: Dialect, if_exists: IfExists) -> Iterator[str]:
    """What to end an INSERT with, one after the other until it changes a row; nothing for what leaves rows alone.

    A row that does not run, as most, needs a statement that PostgreSQL plans in much less time.
    """
    if if_exists is IfExists.REPLACE:
        yield f"{dialect.on_conflict(_upserted_idle(dialect.new))} WHERE {TASK}.status <> {RUNNING}"
        yield dialect.on_conflict(upserted(dialect.new))
    if if_exists in PREFERRING:
        only = preferred(if_exists, dialect.new("when_time"))
        yield f"{dialect.on_conflict(upserted(dialect.new))} WHERE {only}"

"""Adding: one statement that creates, replaces, defers or keeps (DESIGN §3, first rows of the table)."""

from collections.abc import Callable
from functools import cache
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, IfExists
from django_delayed_tasks.store.dialects import Dialect, dialect_of
from django_delayed_tasks.store.tables import CARRIED, FAILED, PENDING, RUNNING, TASK
from django_delayed_tasks.store.transactions import in_one_statement
from django_delayed_tasks.store.validation import Schedule, When

COLUMNS = (
    f"biz_code, biz_num, {', '.join(CARRIED)}, when_time, claim_at, create_time, update_time,"
    " status, version, attempts, rescues, last_error, deferred_queue"
)
FRESH = f"{PENDING}, 0, 0, 0, '', ''"
_SEEN = 1 << 60
"""Above every id: MySQL reports a row that was there already as id + this, or + twice this if it was running."""
_REPORT = f"version = version + 0 * LAST_INSERT_ID(id + IF(status = {RUNNING}, 2, 1) * {_SEEN})"


def add(alias: str, schedule: Schedule, if_exists: IfExists) -> AddResult:
    """Make ``schedule`` the next of its identity. Part of the caller's transaction, if there is one.

    Raises:
        TaskExists: with ``IfExists.RAISE``, when a task of this identity exists.
    """
    dialect = dialect_of(connections[alias])
    way = _way(dialect, if_exists)
    result = in_one_statement(alias, lambda cursor: way(cursor, dialect, schedule, if_exists))
    if if_exists is IfExists.RAISE and result.action is AddAction.KEPT:
        raise TaskExists(schedule.biz_code, schedule.biz_num)
    return result


_Way = Callable[[CursorWrapper, Dialect, Schedule, IfExists], AddResult]


def _way(dialect: Dialect, if_exists: IfExists) -> _Way:
    if dialect.connection.vendor != "mysql":
        return _add_returning
    return _add_preferred_by_last_id if if_exists in PREFERRING else _add_by_last_id


def _add_returning(cursor: CursorWrapper, dialect: Dialect, schedule: Schedule, if_exists: IfExists) -> AddResult:
    insert, parameters = _insert(dialect, schedule)
    if if_exists is IfExists.REPLACE or if_exists in PREFERRING:
        only = f" WHERE {preferred(if_exists, dialect.new('when_time'))}" if if_exists in PREFERRING else ""
        sql = insert + dialect.on_conflict(upserted(dialect.new)) + only + " RETURNING id, version, status"
        cursor.execute(sql, parameters)
        if row := cursor.fetchone():
            return _result(*row)
    while True:
        cursor.execute(insert + " ON CONFLICT (biz_code, biz_num) DO NOTHING RETURNING id", parameters)
        if row := cursor.fetchone():
            return AddResult(row[0], AddAction.CREATED)
        cursor.execute(f"SELECT id FROM {TASK} WHERE biz_code = %s AND biz_num = %s", schedule[:2])
        if row := cursor.fetchone():
            return AddResult(row[0], AddAction.KEPT)


def _result(task_id: int, version: int, status: int) -> AddResult:
    if version == 0:
        return AddResult(task_id, AddAction.CREATED)
    return AddResult(task_id, AddAction.DEFERRED if status == RUNNING else AddAction.REPLACED)


def _add_by_last_id(cursor: CursorWrapper, dialect: Dialect, schedule: Schedule, if_exists: IfExists) -> AddResult:
    """MySQL has no RETURNING, but lets an upsert choose what it reports as the last inserted id.

    In the caller's transaction, where a deadlock could not be tried again, what exists is updated first: that takes
    record locks only, where an upsert takes gap locks (docs/decisions/0002). Alone, one statement does all.
    """
    is_replacing = if_exists is IfExists.REPLACE
    if dialect.connection.in_atomic_block:
        update, given = _update(dialect, schedule) if is_replacing else (f"UPDATE {TASK} SET {_REPORT}", {})
        identity = {"biz_code": schedule.biz_code, "biz_num": schedule.biz_num}
        cursor.execute(f"{update} WHERE biz_code = %(biz_code)s AND biz_num = %(biz_num)s", given | identity)
        if cursor.rowcount:
            return _reported(cursor.lastrowid, if_exists)
    insert, parameters = _insert(dialect, schedule)
    changes = f"{_REPORT}, {upserted(dialect.new)}" if is_replacing else _REPORT
    cursor.execute(insert + dialect.on_conflict(changes), parameters)
    return _reported(cursor.lastrowid, if_exists)


def _add_preferred_by_last_id(
    cursor: CursorWrapper, dialect: Dialect, schedule: Schedule, if_exists: IfExists
) -> AddResult:
    """An upsert has no condition here: what exists is updated if it is to be, else found, else created."""
    update, given = _update(dialect, schedule)
    when = "%(when)s" if given["when"] is not None else dialect.moment(schedule.when)[0]
    identity = {"biz_code": schedule.biz_code, "biz_num": schedule.biz_num}
    condition = f"biz_code = %(biz_code)s AND biz_num = %(biz_num)s AND {preferred(if_exists, when)}"
    for _ in range(2):
        cursor.execute(f"{update} WHERE {condition}", given | identity)
        if cursor.rowcount:
            return _reported(cursor.lastrowid, IfExists.REPLACE)
        found = _add_by_last_id(cursor, dialect, schedule, IfExists.KEEP)
        if found.action is AddAction.CREATED:
            break
    return found


def _update(dialect: Dialect, schedule: Schedule) -> tuple[str, dict[str, Any]]:
    when, parameters = of_when = dialect.moment(schedule.when)
    when = "%(when)s" if parameters else when
    values = {column: f"%({column})s" for column in CARRIED} | {"when_time": when, "update_time": dialect.now}
    claim_at, claim_parameters = dialect.moment(schedule.claim_at) if schedule.claim_at else of_when
    values["claim_at"] = dialect.greatest("%(claim_at)s" if claim_parameters else claim_at, dialect.now)
    values["expires_at"], expires = _moment_or_null(dialect, schedule.expires_at, "%(expires_at)s")
    given = {column: getattr(schedule, column) for column in CARRIED}
    moments = {"when": parameters, "claim_at": claim_parameters, "expires_at": expires}
    given |= {name: values[0] if values else None for name, values in moments.items()}
    return f"UPDATE {TASK} SET {_REPORT}, {replacement(values.__getitem__)}", given


def _reported(last_id: int, if_exists: IfExists) -> AddResult:
    seen, task_id = divmod(last_id, _SEEN)
    if not seen:
        return AddResult(task_id, AddAction.CREATED)
    if if_exists is not IfExists.REPLACE:
        return AddResult(task_id, AddAction.KEPT)
    return AddResult(task_id, AddAction.DEFERRED if seen > 1 else AddAction.REPLACED)


def _insert(dialect: Dialect, schedule: Schedule) -> tuple[str, list[Any]]:
    when, when_parameters = of_when = dialect.moment(schedule.when)
    now = dialect.now
    claim_at, claim_parameters = dialect.moment(schedule.claim_at) if schedule.claim_at else of_when
    claim_at = claim_at if schedule.when is None else dialect.greatest(claim_at, now)
    expires_at, expires = _moment_or_null(dialect, schedule.expires_at, "%s")
    values = f"%s, %s, {dialect.json('%s')}, %s, %s, %s, {expires_at}, %s, {when}, {claim_at}, {now}, {now}, {FRESH}"
    parameters = [
        schedule.biz_code, schedule.biz_num, schedule.biz_ext, schedule.queue, schedule.priority,
        schedule.trigger_text, *expires, schedule.once, *when_parameters, *claim_parameters,
    ]  # fmt: skip
    return f"INSERT INTO {TASK} ({COLUMNS}) VALUES ({values})", parameters


PREFERRING = (IfExists.EARLIEST, IfExists.LATEST)


def preferred(if_exists: IfExists, when: str) -> str:
    """Whether an existing row is to have the new schedule, at ``when``, rather than its own."""
    than = "<" if if_exists is IfExists.EARLIEST else ">"
    return (
        f"(CASE {TASK}.status WHEN {FAILED} THEN 1 = 1 WHEN {RUNNING} THEN {TASK}.deferred_when IS NULL OR"
        f" {when} {than} {TASK}.deferred_when ELSE {when} {than} {TASK}.when_time END)"
    )


def _moment_or_null(dialect: Dialect, moment: When, placeholder: str) -> tuple[str, list[Any]]:
    if moment is None:
        return "NULL", []
    sql, parameters = dialect.moment(moment)
    return (placeholder if parameters else sql), parameters


def replacement(new: Callable[[str], str]) -> str:
    """The assignments that turn an existing row into the new schedule, or put it beside a run that is going on.

    ``new(column)`` is the SQL of the new value. ``status`` comes last: MySQL evaluates assignments from left to right
    and sees the values already assigned.
    """
    beside = {"deferred_when": "when_time"} | {f"deferred_{column}": column for column in CARRIED}
    instead = {column: new(column) for column in ("when_time", *CARRIED, "claim_at")}
    instead |= {"attempts": "0", "rescues": "0", "last_error": "''", "version": f"{TASK}.version + 1"}
    assignments = [
        f"{column} = CASE WHEN {TASK}.status = {RUNNING} THEN {new(source)} ELSE {TASK}.{column} END"
        for column, source in beside.items()
    ]
    assignments += [
        f"{column} = CASE WHEN {TASK}.status = {RUNNING} THEN {TASK}.{column} ELSE {value} END"
        for column, value in instead.items()
    ]
    assignments.append(f"update_time = {new('update_time')}")
    assignments.append("by_handler = NULL, pause_requested = NULL")
    assignments.append(f"status = CASE WHEN {TASK}.status = {RUNNING} THEN {RUNNING} ELSE {PENDING} END")
    return ", ".join(assignments)


upserted = cache(replacement)
"""The same for a dialect's ``new``: as long as all the rest of the statement, and the same for every task."""

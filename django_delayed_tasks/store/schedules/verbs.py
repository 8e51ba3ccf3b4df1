"""Verbs: changes of tasks that exist. A verb is a value, the same for the API, the admin, the terminal and functions.

It is applied to an identity, to tasks in the versions in which they were seen, or to each task that a query finds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet

from django_delayed_tasks.models import Task
from django_delayed_tasks.outcomes import UNCHANGED, Unchanged
from django_delayed_tasks.states import CancelResult, RunOutcome
from django_delayed_tasks.store.records.history import record_without_run
from django_delayed_tasks.store.sql.dialects import SQL, Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import MAX_VERSION, Seen, lock_unchanged, unchanged
from django_delayed_tasks.store.sql.lanes import OPENED
from django_delayed_tasks.store.sql.portions import PORTION, portions
from django_delayed_tasks.store.sql.tables import (
    CARRIED,
    FAILED,
    FORGET_DEFERRED,
    PAUSED,
    PENDING,
    RESET,
    RESET_COUNTS,
    RUNNING,
    STOPPING,
    TASK,
)
from django_delayed_tasks.store.sql.transactions import atomically, decisive_write
from django_delayed_tasks.store.validation import When
from django_delayed_tasks.triggers.values import LAST

IDENTITY: Final = "biz_code = %s AND biz_num = %s"


@dataclass(frozen=True, slots=True)
class Verb:
    """A change of tasks.

    Attributes:
        assignments: returns the columns' new values. MySQL evaluates assignments from left to right and sees the values
            already assigned.
        accepts: the condition on a task, in any other state it is left as it is; without parameters.
        ends: how a task that is not running ends; None if it does not. One that is running gets the new values.
    """

    assignments: Callable[[Dialect], SQL]
    accepts: str
    ends: RunOutcome | None = None

    def to_identity(self, alias: str, biz_code: str, biz_num: str) -> bool:
        """Change the task of this identity, in one statement; return False if there is none that is accepted.

        A task that is to end is ended by :func:`cancel`.
        """
        assignments, parameters = self.assignments(dialect_of(connections[alias]))
        sql = f"UPDATE {TASK} SET {assignments} WHERE {IDENTITY} AND {self.accepts}"

        def write(cursor: CursorWrapper) -> bool:
            cursor.execute(sql, [*parameters, biz_code, biz_num])
            return bool(cursor.rowcount)

        return decisive_write(alias, write)

    def to_seen(self, alias: str, seen: Collection[Seen]) -> dict[int, int]:
        """Change those of these tasks that are accepted and still in the version in which they were seen.

        Return the id of each, and the status in which it was.
        """

        def write(cursor: CursorWrapper) -> dict[int, int]:
            dialect = dialect_of(connections[alias])
            found = lock_unchanged(cursor, dialect, seen, self.accepts)
            ending = {one for one, status in found.items() if self.ends and status != RUNNING}
            if staying := found.keys() - ending:
                assignments, parameters = self.assignments(dialect)
                cursor.execute(f"{dialect.update(TASK)} SET {assignments} WHERE {unchanged(staying)}", parameters)
            if self.ends and ending:
                _end(cursor, dialect, unchanged(ending), self.ends)
            return {task_id: status for (task_id, _), status in found.items()}

        return atomically(alias, write) if seen else {}

    def to_each(self, tasks: "QuerySet[Task]") -> Counter[int]:
        """Change all accepted tasks that the query finds now; return how many these were, by the status they were in.

        A portion is a transaction, unless the caller has one open. A task that changes between the look at it and its
        portion's transaction, because it is claimed, for example, is looked at again, and changed if it still matches.
        """
        ids = sorted(tasks.values_list("id", flat=True))
        changed = (self._to_portion(tasks.filter(id__in=portion)) for portion in portions(ids, PORTION))
        return sum(changed, Counter())

    def _to_portion(self, tasks: "QuerySet[Task]", tried: Collection[Seen] = ()) -> Counter[int]:
        seen = {(task.id, task.version) for task in tasks.only("id", "version")} - set(tried)
        changed = self.to_seen(tasks.db, sorted(seen))
        left = [task_id for task_id, _ in seen if task_id not in changed]
        return Counter(changed.values()) + (self._to_portion(tasks.filter(id__in=left), seen) if left else Counter())


def _end(cursor: CursorWrapper, dialect: Dialect, condition: str, outcome: RunOutcome, why: str = "") -> None:
    record_without_run(cursor, condition, outcome, dialect.now, error=why)
    cursor.execute(f"{dialect.delete(TASK)} WHERE {condition}")


def _cancelled(dialect: Dialect) -> SQL:
    now = dialect.now
    return f"cancel_requested_at = {now}, update_time = {now}, pause_requested = NULL, {FORGET_DEFERRED}", []


CANCEL: Final = Verb(_cancelled, "1 = 1", RunOutcome.CANCELLED)
"""Tasks that wait end; one that is running ends with its run."""


def cancel(alias: str, biz_code: str, biz_num: str) -> CancelResult:
    """Cancel the task of this identity: at once if it waits; if it is running, it ends with this run."""
    dialect = dialect_of(connections[alias])
    return atomically(alias, lambda cursor: cancel_one(cursor, dialect, IDENTITY, [biz_code, biz_num]))


def cancel_one(
    cursor: CursorWrapper, dialect: Dialect, condition: str, parameters: Sequence[Any], why: str = ""
) -> CancelResult:
    """Cancel the one task under this condition, if there is one; the history says ``why``."""
    # The write comes first: it locks the row on every database, so what is read next cannot change.
    cursor.execute(f"UPDATE {TASK} SET {_cancelled(dialect)[0]} WHERE {condition}", parameters)
    if not cursor.rowcount:
        return CancelResult.MISSING
    cursor.execute(f"SELECT id, status FROM {TASK} WHERE {condition}", parameters)
    task_id, status = cursor.fetchone()
    if status == RUNNING:
        return CancelResult.STOPPING
    _end(cursor, dialect, f"id = {task_id:d}", RunOutcome.CANCELLED, why)
    return CancelResult.CANCELLED


_CHANGEABLE: Final = f"version < {MAX_VERSION}"


def rescheduling(when: When) -> Verb:
    """Return the verb that gives a task a new time; a running one for after its run."""

    def assignments(dialect: Dialect) -> SQL:
        moment, given = dialect.moment(when)
        return _moved(dialect, moment, moment), given * 3

    return Verb(assignments, _CHANGEABLE)


def rescheduling_by(offset: timedelta) -> Verb:
    """Return the verb that reschedules a task by an offset from its time, or from now if that has passed.

    Its time is that of its next run: of a retry if it waits for one, of its deferred schedule if it is running.
    """

    def assignments(dialect: Dialect) -> SQL:
        next_run = _shifted(dialect, dialect.greatest("claim_at", dialect.now), offset)
        after_this_run = _shifted(dialect, dialect.greatest("COALESCE(deferred_when, when_time)", dialect.now), offset)
        return _moved(dialect, next_run, after_this_run), []

    return Verb(assignments, _CHANGEABLE)


def _shifted(dialect: Dialect, moment: str, offset: timedelta) -> str:
    """Return the expression for the shifted moment, which is at most the last that is accepted."""
    later = dialect.shifted(moment, offset)
    if offset <= timedelta():
        return later
    latest = dialect.moment_literal(LAST)
    return f"(CASE WHEN {moment} > {dialect.moment_literal(LAST - offset)} THEN {latest} ELSE {later} END)"


def _moved(dialect: Dialect, moment: str, deferred_moment: str) -> str:
    """Return assignments like those of an add that replaces, but keeping everything except the time.

    The new time is ``moment``; while the task is running, ``deferred_moment`` is deferred. The columns in these are
    assigned last, except for ``when_time``, which does not change during a run, and ``claim_at``, which comes after it.
    """
    deferring = f"status = {RUNNING} AND deferred_when IS NULL"
    carried = {column: f"CASE WHEN {deferring} THEN {column} ELSE deferred_{column} END" for column in CARRIED}
    # FALSE, not TRUE: the task runs again even if the current run succeeds and it is to be done once
    # (docs/decisions/0012).
    carried["once"] = f"CASE WHEN {carried['once']} IS NULL THEN NULL ELSE FALSE END"
    deferred = [f"deferred_{column} = {value}" for column, value in carried.items()]
    deferred.append(f"deferred_keeps_ext = CASE WHEN {deferring} THEN TRUE ELSE deferred_keeps_ext END")
    instead = {
        "when_time": moment,
        "claim_at": dialect.greatest(moment, dialect.now),
        "version": "version + 1",
        "lane": OPENED,
    }
    changes = [
        f"{column} = CASE WHEN status = {RUNNING} THEN {column} ELSE {value} END"
        for column, value in (instead | RESET).items()
    ]
    last = [
        f"deferred_when = CASE WHEN status = {RUNNING} THEN {deferred_moment} ELSE NULL END",
        f"update_time = {dialect.now}",
        "pause_requested = NULL",
        f"status = CASE WHEN status = {RUNNING} THEN {RUNNING} ELSE {PENDING} END",
    ]
    return ", ".join(deferred + changes + last)


def _accepting(*statuses: int) -> str:
    return f"status IN ({', '.join(map(str, statuses))}) AND {_CHANGEABLE}"


def _touched(dialect: Dialect, changes: str) -> str:
    return f"version = version + 1, lane = {OPENED}, update_time = {dialect.now}, {changes}"


def _due_now(dialect: Dialect) -> SQL:
    now = dialect.now
    # A recurring task keeps its next time: this is an extra run. So does a retry, which belongs to a run that was in
    # time: with the one attempt that is left to it, it is not asked again whether it is too late.
    attempts = f"CASE WHEN attempts > 0 AND when_time <= {now} THEN 1 ELSE 0 END"
    is_now = f"trigger_text IS NULL AND (attempts = 0 OR when_time > {now})"
    when = f"CASE WHEN {is_now} THEN {now} ELSE when_time END"
    # In this order, for MySQL, which sees the values already assigned.
    changes = {"attempts": attempts, "when_time": when, "claim_at": now, "rescues": "0", "last_error": "''"}
    return _touched(dialect, ", ".join(f"{column} = {value}" for column, value in changes.items())), []


RUN_NOW: Final = Verb(_due_now, _accepting(PENDING))
"""Pending tasks may be claimed now, with their attempt counters reset; of a retry's attempts, one is left."""


def postponing(offset: timedelta) -> Verb:
    """Return the verb that postpones a pending task, from its time or from now if that has passed."""

    def assignments(dialect: Dialect) -> SQL:
        later = _shifted(dialect, dialect.greatest("claim_at", dialect.now), offset)
        # claim_at, which both are made of, comes last: see Verb.
        return _touched(dialect, f"when_time = {later}, claim_at = {later}, {RESET_COUNTS}"), []

    return Verb(assignments, _accepting(PENDING))


def retiming(moments: Mapping[str, datetime]) -> Verb:
    """Return the verb that gives pending and paused tasks these moments, by column, and changes nothing else."""

    def assignments(dialect: Dialect) -> SQL:
        changes = [f"{column} = {dialect.moment_literal(moment)}" for column, moment in moments.items()]
        return _touched(dialect, ", ".join(changes)), []

    return Verb(assignments, _accepting(PENDING, PAUSED))


def _pending_again(dialect: Dialect) -> SQL:
    claim_at = dialect.greatest("when_time", dialect.now)
    return _touched(dialect, f"status = {PENDING}, claim_at = {claim_at}, {RESET_COUNTS}"), []


RETRY: Final = Verb(_pending_again, _accepting(FAILED))
"""Failed tasks are pending again, at their time or now, with their attempt counters reset."""


def _paused(dialect: Dialect) -> SQL:
    return (
        f"pause_requested = CASE WHEN status = {RUNNING} THEN TRUE ELSE NULL END,"
        f" lane = CASE WHEN status = {PENDING} THEN {OPENED} ELSE lane END,"
        f" version = CASE WHEN status = {PENDING} THEN version + 1 ELSE version END,"
        f" update_time = {dialect.now},"
        f" status = CASE WHEN status = {PENDING} THEN {PAUSED} ELSE status END"
    ), []


_PAUSABLE: Final = f"{_accepting(PENDING, RUNNING, PAUSED)} AND NOT {STOPPING.replace(f'{TASK}.', '')}"
PAUSE: Final = Verb(_paused, _PAUSABLE)
"""Pending tasks are paused, running ones when their run has ended, unless they are stopping. A later add or reschedule
ends the pause.
"""
PAUSE_UNPAUSED: Final = replace(PAUSE, accepts=f"{_PAUSABLE} AND status <> {PAUSED} AND pause_requested IS NULL")
"""The same, of tasks for which that is news."""


@dataclass(frozen=True, slots=True)
class Edit:
    """New values for a waiting task; a field left out is not changed. ``biz_ext`` is JSON text, or None for null."""

    when: datetime | Unchanged = UNCHANGED
    biz_ext: str | Unchanged | None = field(default=UNCHANGED, repr=False)  # may hold secrets
    queue: str | Unchanged = UNCHANGED
    priority: int | Unchanged = UNCHANGED

    def verb(self) -> Verb:
        """Return the verb that changes a pending, paused or failed task, which keeps its status."""
        return Verb(self._assignments, _accepting(PENDING, FAILED, PAUSED))

    def _assignments(self, dialect: Dialect) -> SQL:
        assignments: list[str] = []
        parameters: list[Any] = []
        if not isinstance(self.when, Unchanged):
            moment, given = dialect.moment(self.when)
            changed = {"claim_at": dialect.greatest(moment, dialect.now), **RESET}  # of a failed task: when it failed
            assignments += [f"when_time = {moment}", *map(_unless_failed, changed, changed.values())]
            parameters += given * 2
        if not isinstance(self.biz_ext, Unchanged):
            assignments.append(f"biz_ext = {dialect.json('%s')}")
            parameters.append(self.biz_ext)
        for column, value in (("queue", self.queue), ("priority", self.priority)):
            if not isinstance(value, Unchanged):
                assignments.append(f"{column} = %s")
                parameters.append(value)
        return _touched(dialect, ", ".join(assignments)), parameters


def _unless_failed(column: str, value: str) -> str:
    return f"{column} = CASE WHEN status = {FAILED} THEN {column} ELSE {value} END"

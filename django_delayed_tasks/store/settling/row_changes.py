"""The next state: what a task's row becomes when its claim ends and the task is not gone."""

from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.fences import MAX_VERSION
from django_delayed_tasks.store.sql.tables import (
    CARRIED,
    FAILED,
    FORGET_DEFERRED,
    FORGET_PROGRESS,
    PAUSED,
    PENDING,
    RESET,
)

Assignments = dict[str, tuple[str, list[Any]]]
"""For each column its expression and the expression's parameters."""

_TAKEN = (NextState.RESCUED, NextState.RELEASED)
"""Ways in which a claim ends without the run's knowledge; ``version`` grows, so that this run can no longer write."""

_WAITING: Assignments = {"status": (f"CASE WHEN pause_requested = TRUE THEN {PAUSED} ELSE {PENDING} END", [])}
_RESET: Assignments = {column: (value, []) for column, value in RESET.items()}
_ATTEMPT_BACK: Assignments = {"attempts": ("CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END", [])}


def row_changes(dialect: Dialect, settlement: Settlement, is_deferred: bool) -> tuple[str, list[Any]]:
    """Return the assignments for one locked row, and their parameters."""
    changes = _to_deferred(dialect, settlement) if is_deferred else _WAYS[settlement.then](dialect, settlement)
    if settlement.then in _TAKEN:
        changes |= {"version": (f"CASE WHEN version < {MAX_VERSION} THEN version + 1 ELSE version END", [])}
    # pause_requested comes last: MySQL evaluates from left to right and sees the values already assigned.
    changes |= {
        "executor": ("0", []),
        "cancel_requested_at": ("NULL", []),
        "update_time": (dialect.now, []),
        "pause_requested": ("NULL", []),
    }
    assignments = [f"{column} = {sql}" for column, (sql, _) in changes.items()]
    parameters = [value for _, values in changes.values() for value in values]
    return ", ".join([*assignments, FORGET_DEFERRED, FORGET_PROGRESS]), parameters


def _to_deferred(dialect: Dialect, settlement: Settlement) -> Assignments:
    left, parameters = _left_data(dialect, settlement)
    # During a rolling deploy, an older release may have deferred other data without clearing deferred_keeps_ext.
    is_kept = f"deferred_keeps_ext = TRUE AND {dialect.same('deferred_biz_ext', 'biz_ext')}"
    return {
        "claim_at": (dialect.greatest("deferred_when", dialect.now), []),
        "when_time": ("deferred_when", []),
        **{column: (f"deferred_{column}", []) for column in CARRIED},
        # deferred_once is FALSE if a task to be done once runs again although it has been done (docs/decisions/0012).
        "once": ("CASE WHEN deferred_once IS NULL THEN NULL ELSE TRUE END", []),
        "biz_ext": (f"CASE WHEN {is_kept} THEN {left} ELSE deferred_biz_ext END", parameters),
        # An incomplete schedule, written by other means, keeps the task's values: it must not block other settlements.
        "queue": ("CASE WHEN deferred_queue = '' THEN queue ELSE deferred_queue END", []),
        "priority": ("COALESCE(deferred_priority, priority)", []),
        **_WAITING,
        **_RESET,
    }


def _again(dialect: Dialect, settlement: Settlement) -> Assignments:
    """Return the changes for a next run at ``when``, claimable ``after`` that."""
    when, parameters = dialect.moment(settlement.when)
    earliest, of_earliest = when, parameters
    if settlement.after and isinstance(settlement.when, datetime):
        earliest, of_earliest = dialect.moment(settlement.when + settlement.after)
    changes: Assignments = {
        "when_time": (when, parameters),
        "claim_at": (dialect.greatest(earliest, dialect.now), of_earliest),
        **_WAITING,
        **_RESET,
    }
    if settlement.biz_ext is not UNCHANGED:
        changes["biz_ext"] = _left_data(dialect, settlement)
    return changes


def _left_data(dialect: Dialect, settlement: Settlement) -> tuple[str, list[Any]]:
    """Return the data for the next run, unless a deferred schedule brings its own."""
    return ("biz_ext", []) if settlement.biz_ext is UNCHANGED else (dialect.json("%s"), [settlement.biz_ext])


def _recur(dialect: Dialect, settlement: Settlement) -> Assignments:
    """Like :func:`_again`, but keep the last run's error for people to see."""
    return _again(dialect, settlement) | {"last_error": ("%s", [settlement.error])}


def _retry(dialect: Dialect, settlement: Settlement) -> Assignments:
    return {
        "claim_at": (dialect.later(max(settlement.after, timedelta())), []),
        "last_error": ("%s", [settlement.error]),
        **_WAITING,
    }


def _failed(dialect: Dialect, settlement: Settlement) -> Assignments:
    # claim_at of a failed task is when it failed, so that the claim index has the newest ones together.
    return {"last_error": ("%s", [settlement.error]), "status": (str(FAILED), []), "claim_at": (dialect.now, [])}


def _rescued(dialect: Dialect, settlement: Settlement) -> Assignments:
    # The attempt is given back: rescues have a limit of their own.
    return {
        "claim_at": (_not_early(dialect, settlement.after), []),
        "rescues": ("rescues + 1", []),
        **_ATTEMPT_BACK,
        "last_error": ("%s", [settlement.error]),
        **_WAITING,
    }


def _released(dialect: Dialect, settlement: Settlement) -> Assignments:
    # claim_at moves to now: other executors look only a few seconds back.
    return {
        "claim_at": (_not_early(dialect, settlement.after), []),
        **_ATTEMPT_BACK,
        **_WAITING,
        **({} if settlement.lane is None else {"lane": ("%s", [settlement.lane])}),
    }


def _not_early(dialect: Dialect, after: timedelta) -> str:
    """Return the moment ``after`` from now, or ``claim_at`` if that is later, as for a task claimed ahead of time."""
    return dialect.greatest(dialect.later(after), "claim_at")


_WAYS = {
    NextState.AGAIN: _again,
    NextState.RECUR: _recur,
    NextState.RETRY: _retry,
    NextState.FAILED: _failed,
    NextState.RESCUED: _rescued,
    NextState.RELEASED: _released,
}

"""What a row becomes when its claim ends and the task goes on."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.dialects import Dialect
from django_delayed_tasks.store.fences import LAST_VERSION
from django_delayed_tasks.store.tables import FAILED, FORGET_DEFERRED, FORGET_PROGRESS, PENDING, TASK

if TYPE_CHECKING:
    from django_delayed_tasks.store.settling import Settlement

Assignments = list[tuple[str, list[Any]]]

_TAKEN = (Then.RESCUED, Then.RELEASED)
"""Claims that end without the run's knowledge: whoever still has one must find another version."""

_ATTEMPT_BACK = "attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END"
_ANEW: Assignments = [("attempts = 0", []), ("rescues = 0", []), ("last_error = ''", [])]


def aftermath(dialect: Dialect, settlement: "Settlement", is_deferred: bool) -> tuple[str, list[Any]]:
    """The UPDATE of one locked row."""
    changes = _to_deferred(dialect) if is_deferred else _WAYS[settlement.then](dialect, settlement)
    if settlement.then in _TAKEN:
        changes.append((f"version = CASE WHEN version < {LAST_VERSION} THEN version + 1 ELSE version END", []))
    changes += [
        ("executor = NULL", []),
        ("cancel_requested_at = NULL", []),
        (FORGET_DEFERRED, []),
        (FORGET_PROGRESS, []),
        (f"update_time = {dialect.now}", []),
    ]
    assignments = ", ".join(sql for sql, _ in changes)
    parameters = [value for _, values in changes for value in values]
    return f"{dialect.update(TASK)} SET {assignments} WHERE id = {settlement.claim[0]:d}", parameters


def _to_deferred(dialect: Dialect) -> Assignments:
    return [
        (f"claim_at = {dialect.greatest('deferred_when', dialect.now)}", []),
        ("when_time = deferred_when", []),
        ("biz_ext = deferred_biz_ext", []),
        # A half of a schedule, written by other means, keeps what the task has: it must not keep others from settling.
        ("queue = CASE WHEN deferred_queue = '' THEN queue ELSE deferred_queue END", []),
        ("priority = COALESCE(deferred_priority, priority)", []),
        (f"status = {PENDING}", []),
        *_ANEW,
    ]


def _again(dialect: Dialect, settlement: "Settlement") -> Assignments:
    when, parameters = dialect.moment(settlement.when)
    changes: Assignments = [
        (f"when_time = {when}", parameters),
        (f"claim_at = {dialect.greatest(when, dialect.now)}", parameters),
        (f"status = {PENDING}", []),
        *_ANEW,
    ]
    if settlement.biz_ext is not UNCHANGED:
        changes.append((f"biz_ext = {dialect.json('%s')}", [settlement.biz_ext]))
    return changes


def _retry(dialect: Dialect, settlement: "Settlement") -> Assignments:
    return [
        (f"claim_at = {dialect.later(max(settlement.after, timedelta()))}", []),
        ("last_error = %s", [settlement.error]),
        (f"status = {PENDING}", []),
    ]


def _failed(dialect: Dialect, settlement: "Settlement") -> Assignments:
    return [("last_error = %s", [settlement.error]), (f"status = {FAILED}", [])]


def _rescued(dialect: Dialect, settlement: "Settlement") -> Assignments:
    # The attempt is given back: rescues have a limit of their own.
    return [
        (f"claim_at = {dialect.later(settlement.after)}", []),
        ("rescues = rescues + 1", []),
        (_ATTEMPT_BACK, []),
        ("last_error = %s", [settlement.error]),
        (f"status = {PENDING}", []),
    ]


def _released(dialect: Dialect, settlement: "Settlement") -> Assignments:
    # claim_at moves to the present: other executors look no further back than a few seconds.
    return [
        (f"claim_at = {dialect.later(settlement.after)}", []),
        (_ATTEMPT_BACK, []),
        (f"status = {PENDING}", []),
    ]


_WAYS = {
    Then.AGAIN: _again,
    Then.RETRY: _retry,
    Then.FAILED: _failed,
    Then.RESCUED: _rescued,
    Then.RELEASED: _released,
}

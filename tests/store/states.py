"""The states of ``docs/explanation/design.md`` as rows: how a task gets into each, and what its row looks like."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from tests.store import verbs
from tests.store.verbs import CODE, EXECUTOR, HOUR, NOW

OLD = NOW - HOUR
NEW = NOW + 5 * HOUR
AGAIN = NOW + 7 * HOUR

Run = ClaimedTask | None


def absent() -> Run:
    return None


def pending() -> Run:
    """Waiting for a second attempt, so that a reset of the attempt counter shows."""
    verbs.add(when=OLD, biz_ext="old")
    verbs.settle(verbs.retry(verbs.claim_one(), HOUR))
    return None


def due() -> Run:
    verbs.add(when=OLD, biz_ext="old")
    verbs.settle(verbs.retry(verbs.claim_one(), timedelta()))
    return None


def running() -> Run:
    due()
    return verbs.claim_one()


def running_then(*events: Callable[[], object]) -> Callable[[], Run]:
    """Running, and then these calls came from outside."""

    def state() -> Run:
        run = running()
        for event in events:
            event()
        return run

    return state


def failed() -> Run:
    run = running()
    assert run
    verbs.settle(verbs.failed(run))
    return None


def add_new() -> object:
    return verbs.add(when=NEW, biz_ext="new")


def cancel() -> object:
    return api.cancel_task(CODE, "1")


def move() -> object:
    return api.reschedule_task(CODE, "1", NEW)


BEFORE: dict[str, Callable[[], Run]] = {
    "absent": absent,
    "pending": pending,
    "due": due,
    "running": running,
    "failed": failed,
    "stopping": running_then(cancel),
    "deferred": running_then(add_new),
    "moving": running_then(move),
    "disarmed": running_then(add_new, cancel),
    "rearmed": running_then(cancel, add_new),
    "removed": running_then(cancel, move),
}

LOST = "its executor died 1 time while it ran; not rescued again"

QUIET: dict[str, Any] = {
    "executor": 0, "deferred_when": None, "deferred_biz_ext": None, "cancel_requested_at": None,
    "attempts": 0, "rescues": 0, "last_error": "", "biz_ext": "old", "when": OLD,
}  # fmt: skip
BUSY = QUIET | {"status": TaskStatus.RUNNING, "executor": EXECUTOR, "attempts": 2, "last_error": "not yet"}
DEFERRED = {"deferred_when": NEW, "deferred_biz_ext": "new"}
STOP = {"cancel_requested_at": NOW}


def waiting(**fields: Any) -> dict[str, Any]:
    return QUIET | {"status": TaskStatus.PENDING, "claim_at": fields.get("when", NOW)} | fields


AFTER: dict[str, dict[str, Any] | None] = {
    "gone": None,
    "new": waiting(when=NEW, biz_ext="new"),
    "moved": waiting(when=NEW),
    "pending": waiting(claim_at=NOW + HOUR, attempts=1, last_error="not yet"),
    "again": waiting(when=AGAIN),
    "retrying": waiting(claim_at=NOW + 2 * HOUR, attempts=2, last_error="not again"),
    "rescued": waiting(attempts=1, rescues=1, last_error="its executor died or lost its lease"),
    "released": waiting(attempts=1, last_error="not yet"),
    "running": BUSY,
    "stopping": BUSY | STOP,
    "deferred": BUSY | DEFERRED,
    "rearmed": BUSY | DEFERRED | STOP,
    "moving": BUSY | DEFERRED | {"deferred_biz_ext": "old"},
    "removed": BUSY | DEFERRED | STOP | {"deferred_biz_ext": "old"},
    "failed": QUIET | {"status": TaskStatus.FAILED, "attempts": 2, "last_error": "given up"},
    "lost": QUIET
    | {
        "status": TaskStatus.FAILED,
        "attempts": 2,
        "last_error": "its executor died 1 time while it ran; not rescued again",
    },
}


def seen(row: Task | None, expected: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the fields of the row for which a value is expected."""
    return None if row is None else {name: getattr(row, name) for name in (expected or QUIET)}

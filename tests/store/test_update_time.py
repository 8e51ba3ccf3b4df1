"""``update_time`` tells when a row last changed, whatever changed it."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.schedules.verbs import RUN_NOW, postponing
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Seen
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

pytestmark = pytest.mark.usefixtures("db", "frozen")


def seen() -> list[Seen]:
    row = verbs.present()
    return [(row.pk, row.version)]


WAITING: dict[str, Callable[[], object]] = {
    "added again": lambda: verbs.add(when=HOUR),
    "added again, sooner": lambda: verbs.add(when=NOW - HOUR, if_exists="earliest"),
    "added again in bulk": lambda: api.add_tasks([verbs.task(when=HOUR)]),
    "rescheduled": lambda: api.reschedule_task(CODE, "1", HOUR),
    "paused": lambda: api.pause_task(CODE, "1"),
    "resumed": lambda: [
        api.pause_task(CODE, "1"),
        Task._base_manager.update(update_time=NOW),
        api.resume_task(CODE, "1"),
    ],
    "postponed": lambda: postponing(HOUR).to_seen(ALIAS, seen()),
    "run now": lambda: RUN_NOW.to_seen(ALIAS, seen()),
    "claimed": verbs.claim_one,
}

DURING_RUN: dict[str, Callable[[], object]] = {
    "added again": lambda: verbs.add(when=HOUR),
    "rescheduled": lambda: api.reschedule_task(CODE, "1", HOUR),
    "paused": lambda: api.pause_task(CODE, "1"),
    "cancelled": lambda: api.cancel_task(CODE, "1"),
    "reaped": lambda: reap(ALIAS, max_rescues=3),
    "given up": lambda: reap(ALIAS, max_rescues=0),
}

ENDS: dict[str, Callable[[ClaimedTask], Settlement]] = {
    "again": lambda run: verbs.again(run, HOUR),
    "recurs": lambda run: Settlement(run.claim, RunOutcome.DONE, NextState.RECUR, when=NOW + HOUR),
    "retried": verbs.retry,
    "failed": verbs.failed,
    "released": verbs.released,
}


def changed_by(change: Callable[[], object]) -> timedelta:
    """Return how long after NOW the row changed last, if the change is made two hours later."""
    with frozen_at(NOW + 2 * HOUR):
        change()
    row = verbs.present()
    assert row.create_time == NOW
    return row.update_time - NOW


@pytest.mark.parametrize("change", WAITING)
def test_while_it_waits(change: str) -> None:
    verbs.add()
    assert changed_by(WAITING[change]) == 2 * HOUR


@pytest.mark.parametrize("change", DURING_RUN)
def test_while_it_runs(change: str) -> None:
    verbs.add()
    verbs.claim_one()
    assert changed_by(DURING_RUN[change]) == 2 * HOUR


@pytest.mark.parametrize("end", ENDS)
def test_when_its_run_ends(end: str) -> None:
    verbs.add()
    run = verbs.claim_one()
    assert changed_by(lambda: verbs.settle(ENDS[end](run))) == 2 * HOUR

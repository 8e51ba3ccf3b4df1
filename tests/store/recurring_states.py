"""More states of ``docs/explanation/design.md`` as rows: tasks that recur, are paused, or are done once."""

from collections.abc import Callable
from typing import Any

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import IfExistsName, TaskStatus
from django_delayed_tasks.store.schedules.verbs import RUN_NOW
from django_delayed_tasks.store.settling.reap import reap as reap_orphans
from django_delayed_tasks.triggers import Interval
from tests.store import states, verbs
from tests.store.states import AGAIN, BUSY, LOST, NEW, OLD, STOP, Run, add_new, cancel, move, running_then, waiting
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

TRIGGER = Interval(hours=4)
NEXT = OLD + 4 * HOUR
"""The first time of the trigger after NOW, in the row that OLD is one of."""


def pause() -> bool:
    return api.pause_task(CODE, "1")


def resume() -> bool:
    return api.resume_task(CODE, "1")


def add_once(mode: IfExistsName = "replace", **fields: Any) -> AddResult:
    task = verbs.task(**{"when": NEW, "biz_ext": "new", **fields})
    return api.add_task(task, once=True, if_exists=mode)


def then(state: Callable[[], Run], *events: Callable[[], object]) -> Callable[[], Run]:
    """Return a function that reaches the state and then makes these calls."""

    def reach() -> Run:
        run = state()
        for event in events:
            event()
        return run

    return reach


def recurring() -> Run:
    """Waiting for a time of its trigger that has come, with an attempt counted."""
    verbs.add(when=OLD, biz_ext="old", trigger=TRIGGER)
    verbs.settle(verbs.retry(verbs.claim_one(), 0 * HOUR))
    return None


def recurring_running() -> Run:
    recurring()
    return verbs.claim_one()


def extra() -> Run:
    """Reach the state after a retry of an additional run, before the planned time."""
    verbs.add(when=NEW, biz_ext="old", trigger=TRIGGER)
    RUN_NOW.to_seen(ALIAS, list(Task.objects.values_list("id", "version")))
    verbs.settle(verbs.retry(verbs.claim_one(), HOUR))
    return None


def reap() -> object:
    return reap_orphans(ALIAS, max_rescues=3)


def once_running() -> Run:
    add_once(when=OLD, biz_ext="old")
    verbs.settle(verbs.retry(verbs.claim_one(), 0 * HOUR))
    return verbs.claim_one()


def remembered() -> Run:
    run = once_running()
    assert run
    verbs.settle(verbs.done(run, once=True))
    return None


BEFORE: dict[str, Callable[[], Run]] = states.BEFORE | {
    "paused": then(states.pending, pause),
    "pausing": running_then(pause),
    "halting": running_then(pause, cancel),
    "deferred, pausing": running_then(add_new, pause),
    "rearmed, pausing": running_then(cancel, add_new, pause),
    "recurring": recurring,
    "recurring, paused": then(recurring, pause),
    "recurring, extra paused": then(extra, pause),
    "recurring, rescued paused": then(recurring_running, reap, pause),
    "recurring, running": recurring_running,
    "recurring, pausing": then(recurring_running, pause),
    "recurring, stopping": then(recurring_running, cancel),
    "recurring, rearmed": then(recurring_running, cancel, add_new),
    "recurring, deferred": then(recurring_running, add_new),
    "recurring, moving": then(recurring_running, move),
    "once, running": once_running,
    "once, pausing": then(once_running, pause),
    "once, stopping": then(once_running, cancel),
    "once, deferred": then(once_running, add_once),
    "once, rearmed": then(once_running, cancel, add_once),
    "once, moving": then(once_running, move),
    "once, removed": then(once_running, cancel, move),
    "once, postponed": then(once_running, lambda: add_once(when=OLD), move),
    "once, plain next": then(once_running, add_new),
    "remembered": remembered,
}

STANDS = {"status": TaskStatus.PAUSED}
SOONER, LATER = OLD - HOUR, OLD + 7 * HOUR
ONCE = {"once": True}


def plain(state: dict[str, Any] | None) -> dict[str, Any] | None:
    """The columns that the first table does not look at are empty in its states."""
    empty = {"pause_requested": None, "trigger": None, "once": None, "deferred_trigger_text": None}
    return None if state is None else empty | {"deferred_once": None} | state


def recurs(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return state | {"trigger": TRIGGER} | fields


def of(name: str) -> dict[str, Any]:
    found = states.AFTER[name]
    assert found is not None
    return found


DEFERRED = {"deferred_when": NEW, "deferred_biz_ext": "new"}
PAUSING = {"pause_requested": True}

_MORE: dict[str, dict[str, Any] | None] = {
    "paused": of("pending") | STANDS,
    "resumed": of("pending") | {"claim_at": NOW},
    "pausing": BUSY | PAUSING,
    "deferred, pausing": of("deferred") | PAUSING,
    "rearmed, pausing": of("rearmed") | PAUSING,
    **{f"{name}, paused": of(name) | STANDS for name in ("new", "again", "retrying", "rescued", "released")},
    "sooner": waiting(when=SOONER, claim_at=NOW, biz_ext="new"),
    "later": waiting(when=LATER, biz_ext="new"),
    "deferred sooner": BUSY | DEFERRED | {"deferred_when": SOONER},
    "deferred later": BUSY | DEFERRED | {"deferred_when": LATER},
    "sooner rearmed": BUSY | DEFERRED | STOP | {"deferred_when": SOONER},
    "later rearmed": BUSY | DEFERRED | STOP | {"deferred_when": LATER},
    "at once": waiting(claim_at=NOW, attempts=1),
    "recurring, paused": recurs(waiting(claim_at=NOW, attempts=1, last_error="not yet") | STANDS),
    "recurring, next": recurs(waiting(when=NEXT)),
    "recurring, moved": recurs(waiting(when=NEW)),
    "recurring, at once": recurs(waiting(claim_at=NOW, attempts=1)),
    "recurring, running": recurs(BUSY),
    "recurring, pausing": recurs(BUSY | PAUSING),
    "recurring, stopping": recurs(BUSY | STOP),
    "recurring, deferred": recurs(BUSY | DEFERRED),
    "recurring, rearmed": recurs(BUSY | DEFERRED | STOP),
    "recurring, removed": recurs(of("removed"), deferred_trigger_text=str(TRIGGER)),
    "recurring, moving": recurs(of("moving"), deferred_trigger_text=str(TRIGGER)),
    "recurring, again": recurs(waiting(when=AGAIN)),
    "recurring, again paused": recurs(waiting(when=AGAIN) | STANDS),
    "recurring, failed": recurs(waiting(when=AGAIN, last_error="given up")),
    "recurring, late": recurs(waiting(when=AGAIN, last_error="too late")),
    "recurring, retrying": recurs(of("retrying")),
    "recurring, rescued": recurs(of("rescued")),
    "recurring, released": recurs(of("released")),
    "recurring, lost": recurs(waiting(when=NEXT, last_error=LOST)),
    "recurring, lost paused": recurs(waiting(when=NEXT, last_error=LOST) | STANDS),
    "new, once": of("new") | ONCE,
    "again, once": of("again") | ONCE,
    "failed, once": of("failed") | ONCE,
    "once, running": BUSY | ONCE,
    "once, stopping": BUSY | ONCE | STOP,
    "once, deferred": BUSY | ONCE | DEFERRED | {"deferred_once": True},
    "once, rearmed": BUSY | ONCE | DEFERRED | STOP | {"deferred_once": True},
    "once, moving": of("moving") | ONCE | {"deferred_once": False},
    "once, removed": of("removed") | ONCE | {"deferred_once": False},
    "once, postponed": BUSY | ONCE | DEFERRED | {"deferred_once": False},
    "once, plain next": BUSY | ONCE | DEFERRED,
    "rearmed once": of("rearmed") | {"deferred_once": True},
    "moved, once": of("moved") | ONCE,
    "moved, remembered": of("moved") | ONCE,
    "new, once remembered": of("new") | ONCE,
    "remembered": None,
    "new, remembered": of("new"),
}
AFTER = {name: plain(state) for name, state in (states.AFTER | _MORE).items()}
REMEMBERED = ("remembered", "new, remembered", "moved, remembered", "new, once remembered")

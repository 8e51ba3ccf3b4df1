"""The state table of ``docs/explanation/design.md``, cell by cell: what each event makes of a task in each state."""

from collections.abc import Callable

import pytest

from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import IfExistsName, NextState
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from tests.store import verbs
from tests.store.states import AFTER, AGAIN, BEFORE, NEW, Run, cancel, move, seen
from tests.store.verbs import ALIAS, HOUR

# event | state before | what the call says | state after | version | rows of history
TABLE = """
add replace | absent   | created    | new      | +0 |
add replace | pending  | replaced   | new      | +1 |
add replace | running  | deferred   | deferred | +0 |
add replace | stopping | deferred   | rearmed  | +0 |
add replace | moving   | deferred   | deferred | +0 |
add replace | failed   | replaced   | new      | +1 |
add keep    | absent   | created    | new      | +0 |
add keep    | pending  | kept       | pending  | +0 |
add keep    | running  | kept       | running  | +0 |
add keep    | stopping | deferred   | rearmed  | +0 |
add keep    | deferred | kept       | deferred | +0 |
add keep    | disarmed | deferred   | rearmed  | +0 |
add keep    | rearmed  | kept       | rearmed  | +0 |
add keep    | moving   | kept       | moving   | +0 |
add keep    | removed  | kept       | removed  | +0 |
add keep    | failed   | kept       | failed   | +0 |
add raise   | absent   | created    | new      | +0 |
add raise   | pending  | TaskExists | pending  | +0 |
add raise   | running  | TaskExists | running  | +0 |
add raise   | stopping | deferred   | rearmed  | +0 |
add raise   | deferred | TaskExists | deferred | +0 |
add raise   | disarmed | deferred   | rearmed  | +0 |
add raise   | rearmed  | TaskExists | rearmed  | +0 |
add raise   | moving   | TaskExists | moving   | +0 |
add raise   | removed  | TaskExists | removed  | +0 |
add raise   | failed   | TaskExists | failed   | +0 |
cancel      | absent   | missing    | gone     | +0 |
cancel      | pending  | cancelled  | gone     | +0 | CANCELLED
cancel      | running  | stopping   | stopping | +0 |
cancel      | stopping | stopping   | stopping | +0 |
cancel      | deferred | stopping   | stopping | +0 |
cancel      | rearmed  | stopping   | stopping | +0 |
cancel      | failed   | cancelled  | gone     | +0 | CANCELLED
reschedule  | absent   | False      | gone     | +0 |
reschedule  | pending  | True       | moved    | +1 |
reschedule  | running  | True       | moving   | +0 |
reschedule  | stopping | True       | removed  | +0 |
reschedule  | deferred | True       | deferred | +0 |
reschedule  | failed   | True       | moved    | +1 |
claim       | absent   | 0          | gone     | +0 |
claim       | pending  | 0          | pending  | +0 |
claim       | due      | 1          | running  | +1 |
claim       | running  | 0          | running  | +0 |
claim       | failed   | 0          | failed   | +0 |
done        | running  | gone       | gone     | +0 | DONE
done        | stopping | gone       | gone     | +0 | DONE
done        | deferred | again      | new      | +0 | DONE
done        | moving   | again      | moved    | +0 | DONE
done        | disarmed | gone       | gone     | +0 | DONE
done        | rearmed  | again      | new      | +0 | DONE
done        | removed  | again      | moved    | +0 | DONE
again       | running  | again      | again    | +0 | RESCHEDULED
again       | stopping | gone       | gone     | +0 | CANCELLED
again       | deferred | again      | new      | +0 | RESCHEDULED
again       | moving   | again      | moved    | +0 | RESCHEDULED
again       | disarmed | gone       | gone     | +0 | CANCELLED
again       | rearmed  | again      | new      | +0 | RESCHEDULED
again       | removed  | again      | moved    | +0 | RESCHEDULED
retry       | running  | retry      | retrying | +0 | RETRIED
retry       | stopping | gone       | gone     | +0 | CANCELLED
retry       | deferred | again      | new      | +0 | RETRIED
retry       | disarmed | gone       | gone     | +0 | CANCELLED
retry       | rearmed  | again      | new      | +0 | RETRIED
failed      | running  | failed     | failed   | +0 | FAILED
failed      | stopping | gone       | gone     | +0 | CANCELLED
failed      | deferred | again      | new      | +0 | FAILED
failed      | disarmed | gone       | gone     | +0 | CANCELLED
failed      | rearmed  | again      | new      | +0 | FAILED
reap        | due      | nothing    | released | +0 |
reap        | running  | rescued    | rescued  | +1 | LOST
reap        | stopping | gone       | gone     | +0 | CANCELLED
reap        | deferred | again      | new      | +1 | LOST
reap        | disarmed | gone       | gone     | +0 | CANCELLED
reap        | rearmed  | again      | new      | +1 | LOST
reap at 0   | running  | failed     | lost     | +0 | LOST
reap at 0   | stopping | gone       | gone     | +0 | CANCELLED
reap at 0   | deferred | again      | new      | +0 | LOST
reap at 0   | rearmed  | again      | new      | +0 | LOST
release     | running  | 1          | released | +1 |
release     | stopping | 1          | gone     | +0 | CANCELLED
release     | deferred | 1          | new      | +1 |
release     | disarmed | 1          | gone     | +0 | CANCELLED
release     | rearmed  | 1          | new      | +1 |
"""
CELLS = [tuple(cell.strip() for cell in line.split("|")) for line in TABLE.strip().splitlines()]


def told(became: dict[Claim, NextState]) -> str:
    """Return what became of the task, as its settlement says."""
    return ", ".join(became.values()) or "nothing"


def settling(make: Callable[..., Settlement], *given: object) -> Callable[[Run], object]:
    def settle(run: Run) -> object:
        return told(verbs.settle(make(run, *given)))

    return settle


def adding(if_exists: IfExistsName) -> Callable[[Run], object]:
    def add(_: Run) -> object:
        try:
            return verbs.add(when=NEW, biz_ext="new", if_exists=if_exists).action
        except TaskExists:
            return "TaskExists"

    return add


def releasing(run: Run) -> object:
    assert run
    return len(settle(ALIAS, [verbs.released(run)]).became)


EVENTS: dict[str, Callable[[Run], object]] = {
    "add replace": adding("replace"),
    "add keep": adding("keep"),
    "add raise": adding("raise"),
    "cancel": lambda _: cancel(),
    "reschedule": lambda _: move(),
    "claim": lambda _: len(verbs.claim()),
    "done": settling(verbs.done),
    "again": settling(verbs.again, AGAIN),
    "retry": settling(verbs.retry, 2 * HOUR, "not again"),
    "failed": settling(verbs.failed),
    "reap": lambda _: told(reap(ALIAS, max_rescues=3)),
    "reap at 0": lambda _: told(reap(ALIAS, max_rescues=0)),
    "release": releasing,
}


def check(event: str, before: str, result: str, after: str, version: str, history: str) -> None:
    """Bring a task into the state, let the event happen, and look at everything."""
    run = BEFORE[before]()
    found = verbs.row()
    TaskRun.objects.all().delete()
    assert str(EVENTS[event](run)) == result
    now = verbs.row()
    assert seen(now, AFTER[after]) == AFTER[after]
    assert now is None or now.version - (found.version if found else 0) == int(version)
    assert now is None or found is None or now.id == found.id
    assert [outcome.name for outcome in verbs.outcomes()] == history.split()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}, {cell[1]}")
def test_cell(db: None, frozen: None, cell: tuple[str, ...]) -> None:
    check(*cell)


def test_table_outside_a_transaction(live_db: str, frozen: None) -> None:
    """There an add may be one statement instead of two, and plain runs are settled without locking them first."""
    for cell in CELLS:
        check(*cell)
        Task._base_manager.all().delete()


def test_every_event_meets_every_state_it_can() -> None:
    """A cell that is missing from the table is not checked: each event has the states that matter to it."""
    met = {event: {before for other, before, *_ in CELLS if other == event} for event in EVENTS}
    for event in ("done", "again", "retry", "failed", "reap", "release"):
        assert {"running", "stopping", "deferred", "disarmed", "rearmed"} <= met[event]
    for event in ("add replace", "add keep", "add raise", "cancel", "reschedule"):
        assert {"absent", "pending", "running", "stopping", "failed"} <= met[event]

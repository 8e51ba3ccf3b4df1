"""The state table, continued: tasks that recur, are paused, or are done once; schedules that are compared."""

from collections.abc import Callable

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Success, Task, TaskRun
from django_delayed_tasks.states import IfExistsName, NextState, RunOutcome
from django_delayed_tasks.store.schedules.verbs import RUN_NOW, Verb, postponing
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.store import verbs
from tests.store.recurring_states import AFTER, BEFORE, REMEMBERED, add_once, pause, resume
from tests.store.states import AGAIN, OLD, Run, seen
from tests.store.test_state_table import EVENTS, settling
from tests.store.verbs import ALIAS, CODE, HOUR

# event | state before | what the call says | state after | version | rows of history
TABLE = """
pause           | absent      | False      | gone        | +0 |
pause           | pending     | True       | paused      | +1 |
pause           | paused      | True       | paused      | +0 |
pause           | running     | True       | pausing     | +0 |
pause           | pausing     | True       | pausing     | +0 |
pause           | stopping    | False      | stopping    | +0 |
pause           | rearmed     | True       | rearmed, pausing  | +0 |
pause           | deferred    | True       | deferred, pausing | +0 |
pause           | failed      | False      | failed      | +0 |
pause           | recurring   | True       | recurring, paused  | +1 |
pause           | recurring, running | True | recurring, pausing | +0 |
resume          | absent      | False      | gone        | +0 |
resume          | pending     | False      | pending     | +0 |
resume          | paused      | True       | resumed     | +1 |
resume          | running     | False      | running     | +0 |
resume          | pausing     | True       | running     | +0 |
resume          | stopping    | False      | stopping    | +0 |
resume          | halting     | False      | stopping    | +0 |
resume          | rearmed, pausing  | True | rearmed     | +0 |
resume          | deferred, pausing | True | deferred    | +0 |
resume          | failed      | False      | failed      | +0 |
resume          | recurring, paused  | True | recurring, next    | +1 |
resume          | recurring, pausing | True | recurring, running | +0 |
resume          | recurring, rescued paused | True | recurring, next  | +1 |
resume          | recurring, extra paused   | True | recurring, moved | +1 |

add replace     | paused      | replaced   | new         | +1 |
add keep        | paused      | kept       | paused      | +0 |
add raise       | paused      | TaskExists | paused      | +0 |
cancel          | paused      | cancelled  | gone        | +0 | CANCELLED
reschedule      | paused      | True       | moved       | +1 |
claim           | paused      | 0          | paused      | +0 |
run now         | paused      | 0          | paused      | +0 |
postpone        | paused      | 0          | paused      | +0 |
reap            | paused      | nothing    | paused      | +0 |
add replace     | pausing     | deferred   | deferred    | +0 |
add keep        | pausing     | kept       | pausing     | +0 |
add raise       | pausing     | TaskExists | pausing     | +0 |
cancel          | pausing     | stopping   | stopping    | +0 |
cancel          | rearmed, pausing | stopping | stopping | +0 |
reschedule      | pausing     | True       | moving      | +0 |
claim           | pausing     | 0          | pausing     | +0 |
done            | pausing     | gone       | gone        | +0 | DONE
again           | pausing     | again      | again, paused    | +0 | RESCHEDULED
retry           | pausing     | retry      | retrying, paused | +0 | RETRIED
failed          | pausing     | failed     | failed      | +0 | FAILED
reap            | pausing     | rescued    | rescued, paused  | +1 | LOST
reap at 0       | pausing     | failed     | lost        | +0 | LOST
release         | pausing     | 1          | released, paused | +1 |
done            | halting     | gone       | gone        | +0 | DONE
again           | halting     | gone       | gone        | +0 | CANCELLED
retry           | halting     | gone       | gone        | +0 | CANCELLED
reap            | halting     | gone       | gone        | +0 | CANCELLED
done            | deferred, pausing | again | new, paused | +0 | DONE
retry           | deferred, pausing | again | new, paused | +0 | RETRIED
reap            | deferred, pausing | again | new, paused | +1 | LOST

earliest sooner | absent      | created    | sooner      | +0 |
earliest sooner | pending     | replaced   | sooner      | +1 |
earliest later  | pending     | kept       | pending     | +0 |
latest sooner   | pending     | kept       | pending     | +0 |
latest later    | pending     | replaced   | later       | +1 |
earliest sooner | paused      | replaced   | sooner      | +1 |
earliest later  | paused      | kept       | paused      | +0 |
latest sooner   | paused      | kept       | paused      | +0 |
latest later    | paused      | replaced   | later       | +1 |
earliest later  | running     | deferred   | deferred later | +0 |
latest sooner   | running     | deferred   | deferred sooner | +0 |
earliest sooner | deferred    | deferred   | deferred sooner | +0 |
earliest later  | deferred    | kept       | deferred    | +0 |
latest sooner   | deferred    | kept       | deferred    | +0 |
latest later    | deferred    | deferred   | deferred later | +0 |
earliest later  | stopping    | deferred   | later rearmed | +0 |
latest sooner   | stopping    | deferred   | sooner rearmed | +0 |
earliest later  | pausing     | deferred   | deferred later | +0 |
earliest later  | failed      | replaced   | later       | +1 |
latest sooner   | failed      | replaced   | sooner      | +1 |

add replace     | recurring   | replaced   | new         | +1 |
reschedule      | recurring   | True       | recurring, moved | +1 |
run now         | pending     | 1          | at once     | +1 |
run now         | recurring   | 1          | recurring, at once | +1 |
run now         | recurring, running | 0   | recurring, running | +0 |
run now         | failed      | 0          | failed      | +0 |
cancel          | recurring   | cancelled  | gone        | +0 | CANCELLED
cancel          | recurring, running | stopping | recurring, stopping | +0 |
add replace     | recurring, running | deferred | recurring, deferred | +0 |
reschedule      | recurring, running | True | recurring, moving | +0 |
recur           | recurring, running  | recur | recurring, again  | +0 | DONE
recur           | recurring, stopping | gone  | gone        | +0 | DONE
recur           | recurring, deferred | again | new         | +0 | DONE
recur           | recurring, moving   | again | recurring, moved | +0 | DONE
recur           | recurring, pausing  | recur | recurring, again paused | +0 | DONE
fail and recur  | recurring, running  | recur | recurring, failed | +0 | FAILED
fail and recur  | recurring, stopping | gone  | gone        | +0 | CANCELLED
fail and recur  | recurring, deferred | again | new         | +0 | FAILED
retry           | recurring, running  | retry | recurring, retrying | +0 | RETRIED
again           | recurring, running  | again | recurring, again  | +0 | RESCHEDULED
reap            | recurring, running  | rescued | recurring, rescued | +1 | LOST
reap            | recurring, stopping | gone  | gone        | +0 | CANCELLED
reap            | recurring, deferred | again | new         | +1 | LOST
reap at 0       | recurring, running  | recur | recurring, lost   | +0 | LOST
reap at 0       | recurring, stopping | gone  | gone        | +0 | CANCELLED
reap at 0       | recurring, deferred | again | new         | +0 | LOST
reap at 0       | recurring, pausing  | recur | recurring, lost paused | +0 | LOST
release         | recurring, running  | 1     | recurring, released | +1 |
expire          | running     | gone       | gone        | +0 | EXPIRED
expire          | stopping    | gone       | gone        | +0 | EXPIRED
expire          | deferred    | again      | new         | +0 | EXPIRED
expire and recur | recurring, running  | recur | recurring, late | +0 | EXPIRED
expire and recur | recurring, stopping | gone  | gone        | +0 | CANCELLED
expire and recur | recurring, deferred | again | new         | +0 | EXPIRED

add once        | absent      | created    | new, once   | +0 |
add once        | pending     | replaced   | new, once   | +1 |
add once        | paused      | replaced   | new, once   | +1 |
add once        | failed      | replaced   | new, once   | +1 |
add once        | remembered  | filtered   | remembered  | +0 |
keep once       | remembered  | filtered   | remembered  | +0 |
raise once      | remembered  | filtered   | remembered  | +0 |
latest once     | remembered  | filtered   | remembered  | +0 |
add replace     | remembered  | created    | new, remembered | +0 |
add once        | once, running | deferred | once, deferred  | +0 |
raise once      | once, running | TaskExists | once, running | +0 |
cancel          | remembered  | missing    | remembered  | +0 |
forget          | absent      | False      | gone        | +0 |
forget          | once, running | False    | once, running | +0 |
forget          | remembered  | True       | gone        | +0 |
done once       | once, running  | gone    | remembered  | +0 | DONE
done once       | once, deferred | gone    | remembered  | +0 | DONE
done once       | once, plain next | again   | new, remembered | +0 | DONE
done once       | once, stopping | gone    | remembered  | +0 | DONE
done once       | once, pausing  | gone    | remembered  | +0 | DONE
again           | once, running  | again   | again, once | +0 | RESCHEDULED
retry           | once, deferred | again   | new, once   | +0 | RETRIED
failed          | once, deferred | again   | new, once   | +0 | FAILED
reap            | once, deferred | again   | new, once   | +1 | LOST
failed          | once, running  | failed  | failed, once | +0 | FAILED
cancel          | once, running  | stopping | once, stopping | +0 |

reschedule      | once, running  | True    | once, moving | +0 |
reschedule      | once, deferred | True    | once, postponed | +0 |
reschedule      | once, plain next | True    | once, plain next | +0 |
reschedule      | once, moving   | True    | once, moving | +0 |
add once        | once, moving   | deferred | once, deferred | +0 |
keep once       | once, moving   | kept    | once, moving | +0 |
cancel          | once, moving   | stopping | once, stopping | +0 |
done once       | once, moving   | again   | moved, remembered | +0 | DONE
done once       | once, postponed | again  | new, once remembered | +0 | DONE
again           | once, moving   | again   | moved, once | +0 | RESCHEDULED
retry           | once, moving   | again   | moved, once | +0 | RETRIED
failed          | once, moving   | again   | moved, once | +0 | FAILED
expire          | once, moving   | again   | moved, once | +0 | EXPIRED
reap            | once, moving   | again   | moved, once | +1 | LOST
reap at 0       | once, moving   | again   | moved, once | +0 | LOST
release         | once, moving   | 1       | moved, once | +1 |
"""
CELLS = [tuple(cell.strip() for cell in line.split("|")) for line in TABLE.strip().splitlines() if line]


def comparing(mode: IfExistsName, hours: int) -> Callable[[Run], object]:
    return lambda _: verbs.add(when=OLD + hours * HOUR, biz_ext="new", if_exists=mode).action


def once(mode: IfExistsName) -> Callable[[Run], object]:
    def add(_: Run) -> object:
        try:
            return add_once(mode).action
        except TaskExists:
            return "TaskExists"

    return add


def recurring(outcome: RunOutcome, error: str = "") -> Callable[[Run], object]:
    return settling(lambda run: Settlement(run.claim, outcome, NextState.RECUR, when=AGAIN, error=error))


def act(verb: Verb) -> Callable[[Run], object]:
    return lambda _: len(verb.to_seen(ALIAS, list(Task.objects.values_list("id", "version"))))


MORE: dict[str, Callable[[Run], object]] = {
    "pause": lambda _: pause(),
    "resume": lambda _: resume(),
    "run now": act(RUN_NOW),
    "postpone": act(postponing(HOUR)),
    "earliest sooner": comparing("earliest", -1),
    "earliest later": comparing("earliest", 7),
    "latest sooner": comparing("latest", -1),
    "latest later": comparing("latest", 7),
    "recur": recurring(RunOutcome.DONE),
    "fail and recur": recurring(RunOutcome.FAILED, "given up"),
    "expire": settling(lambda run: Settlement(run.claim, RunOutcome.EXPIRED, NextState.GONE)),
    "expire and recur": recurring(RunOutcome.EXPIRED, "too late"),
    "add once": once("replace"),
    "keep once": once("keep"),
    "raise once": once("raise"),
    "latest once": once("latest"),
    "done once": settling(lambda run: verbs.done(run, once=True)),
    "forget": lambda _: api.forget(CODE, "1"),
}


def check(
    event: str,
    before: str,
    result: str,
    after: str,
    version: str,
    history: str,
    *,
    events: dict[str, Callable[[Run], object]] = EVENTS | MORE,
) -> None:
    """Bring a task into the state, let the event happen, and look at everything."""
    run = BEFORE[before]()
    found = verbs.row()
    TaskRun.objects.all().delete()
    assert str(events[event](run)) == result
    now = verbs.row()
    assert seen(now, AFTER[after]) == AFTER[after]
    assert now is None or now.version - (found.version if found else 0) == int(version)
    assert now is None or found is None or now.id == found.id
    assert [outcome.name for outcome in verbs.outcomes()] == history.split()
    assert Success.objects.exists() == (after in REMEMBERED)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}, {cell[1]}")
def test_cell(db: None, frozen: None, cell: tuple[str, ...]) -> None:
    check(*cell)


def test_table_outside_a_transaction(live_db: str, frozen: None) -> None:
    """There an add may be one statement instead of two, and plain runs are settled without locking them first."""
    for cell in CELLS:
        check(*cell)
        Task._base_manager.all().delete()
        Success.objects.all().delete()


def test_every_event_meets_every_state_it_can() -> None:
    met = {event: {before for other, before, *_ in CELLS if other == event} for event in EVENTS | MORE}
    for event in ("pause", "resume"):
        assert {"absent", "pending", "paused", "running", "pausing", "failed"} <= met[event]
    for event in ("add replace", "add keep", "add raise", "cancel", "reschedule", "claim"):
        assert {"paused", "pausing"} <= met[event]
    for event in ("done", "again", "retry", "failed", "reap", "reap at 0", "release"):
        assert "pausing" in met[event]
    for event in ("recur", "fail and recur", "expire and recur", "reap", "reap at 0"):
        assert {"recurring, running", "recurring, stopping", "recurring, deferred"} <= met[event]
    for event in ("earliest sooner", "earliest later", "latest sooner", "latest later"):
        assert {"pending", "paused", "deferred"} <= met[event]

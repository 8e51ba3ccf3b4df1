"""The state table, continued: a task that was cancelled while it is running counts as absent."""

from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Success, Task
from django_delayed_tasks.states import IfExistsName
from django_delayed_tasks.store.schedules.verbs import RETRY, Edit
from tests.store import verbs
from tests.store.states import NEW, Run, running_then
from tests.store.test_state_table import CELLS as FIRST
from tests.store.test_state_table import EVENTS
from tests.store.test_state_table_recurring import CELLS as SECOND
from tests.store.test_state_table_recurring import MORE, act, check
from tests.store.verbs import CODE, HOUR

# event | state before | what the call says | state after | version | rows of history
TABLE = """
many replace     | stopping | 1          | rearmed         | +0 |
many keep        | stopping | 1          | rearmed         | +0 |
many raise       | stopping | 1          | rearmed         | +0 |
many earliest    | stopping | 1          | rearmed         | +0 |
many latest      | stopping | 1          | rearmed         | +0 |
many keep once   | stopping | 1          | rearmed once    | +0 |
many raise once  | stopping | 1          | rearmed once    | +0 |
many keep        | absent   | 1          | new             | +0 |
many keep        | pending  | 0          | pending         | +0 |
many keep        | running  | 0          | running         | +0 |
many keep        | deferred | 0          | deferred        | +0 |
many keep        | disarmed | 1          | rearmed         | +0 |
many keep        | rearmed  | 0          | rearmed         | +0 |
many keep        | failed   | 0          | failed          | +0 |
many raise       | absent   | 1          | new             | +0 |
many raise       | pending  | TaskExists | pending         | +0 |
many raise       | running  | TaskExists | running         | +0 |
many raise       | deferred | TaskExists | deferred        | +0 |
many raise       | disarmed | 1          | rearmed         | +0 |
many raise       | rearmed  | TaskExists | rearmed         | +0 |
many raise       | failed   | TaskExists | failed          | +0 |
earliest sooner  | stopping | deferred   | sooner rearmed  | +0 |
latest later     | stopping | deferred   | later rearmed   | +0 |
add once         | stopping | deferred   | rearmed once    | +0 |
keep once        | stopping | deferred   | rearmed once    | +0 |
raise once       | stopping | deferred   | rearmed once    | +0 |
latest once      | stopping | deferred   | rearmed once    | +0 |
claim            | stopping | 0          | stopping        | +0 |
delete           | stopping | 1          | stopping        | +0 |
forget           | stopping | False      | stopping        | +0 |
run now          | stopping | 0          | stopping        | +0 |
postpone         | stopping | 0          | stopping        | +0 |
retry failed     | stopping | 0          | stopping        | +0 |
edit             | stopping | 0          | stopping        | +0 |
recur            | stopping | gone       | gone            | +0 | DONE
fail and recur   | stopping | gone       | gone            | +0 | CANCELLED
expire and recur | stopping | gone       | gone            | +0 | CANCELLED
done once        | once, stopping | gone | remembered      | +0 | DONE
expire           | rearmed  | again      | new             | +0 | EXPIRED

add keep         | recurring, stopping | deferred | recurring, rearmed  | +0 |
add raise        | recurring, stopping | deferred | recurring, rearmed  | +0 |
many keep        | recurring, stopping | 1        | recurring, rearmed  | +0 |
cancel           | recurring, stopping | stopping | recurring, stopping | +0 |
reschedule       | recurring, stopping | True     | recurring, removed  | +0 |
pause            | recurring, stopping | False    | recurring, stopping | +0 |
resume           | recurring, stopping | False    | recurring, stopping | +0 |
release          | recurring, stopping | 1        | gone  | +0 | CANCELLED
recur            | recurring, rearmed  | again    | new   | +0 | DONE
fail and recur   | recurring, rearmed  | again    | new   | +0 | FAILED
expire and recur | recurring, rearmed  | again    | new   | +0 | EXPIRED
reap             | recurring, rearmed  | again    | new   | +1 | LOST
reap at 0        | recurring, rearmed  | again    | new   | +0 | LOST

keep once        | once, stopping  | deferred | once, rearmed     | +0 |
raise once       | once, stopping  | deferred | once, rearmed     | +0 |
reschedule       | once, stopping  | True     | once, removed     | +0 |
done once        | once, rearmed   | gone     | remembered        | +0 | DONE
retry            | once, rearmed   | again    | new, once         | +0 | RETRIED
failed           | once, rearmed   | again    | new, once         | +0 | FAILED
reap             | once, rearmed   | again    | new, once         | +1 | LOST
release          | once, rearmed   | 1        | new, once         | +1 |
done once        | once, removed   | again    | moved, remembered | +0 | DONE
"""
CELLS = [tuple(cell.strip() for cell in line.split("|")) for line in TABLE.strip().splitlines() if line]


def many(mode: IfExistsName, *, once: bool = False) -> Callable[[Run], object]:
    def add(_: Run) -> object:
        try:
            return api.add_tasks([verbs.task(when=NEW, biz_ext="new")], if_exists=mode, once=once)
        except TaskExists:
            return "TaskExists"

    return add


YET_MORE: dict[str, Callable[[Run], object]] = {
    **{f"many {mode}": many(mode) for mode in get_args(IfExistsName)},
    "many keep once": many("keep", once=True),
    "many raise once": many("raise", once=True),
    "delete": lambda _: api.delete_tasks(CODE, "1"),
    "retry failed": act(RETRY),
    "edit": act(Edit(when=NEW).verb()),
}


check_more = partial(check, events=EVENTS | MORE | YET_MORE)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}, {cell[1]}")
def test_cell(db: None, frozen: None, cell: tuple[str, ...]) -> None:
    check_more(*cell)


def test_table_outside_a_transaction(live_db: str, frozen: None) -> None:
    for cell in CELLS:
        check_more(*cell)
        Task._base_manager.all().delete()
        Success.objects.all().delete()


def test_every_event_meets_a_stopping_task() -> None:
    met = {event for event, before, *_ in [*FIRST, *SECOND, *CELLS] if before in ("stopping", "once, stopping")}
    assert met == {*EVENTS, *MORE, *YET_MORE}


NUMS = ("1", "absent", "kept")


def batch() -> list[Task]:
    return [verbs.task(num, NEW, biz_ext="new") for num in NUMS]


def deferred_data(num: str) -> object:
    return verbs.present(num).deferred_biz_ext


@pytest.mark.parametrize("runs", [False, True])
def test_a_batch_that_keeps_counts_what_it_wrote(db: None, frozen: None, runs: bool) -> None:
    running_then(lambda: api.cancel_task(CODE, "1"), lambda: verbs.add("kept", biz_ext="old"))()
    if runs:
        verbs.claim()
    assert api.add_tasks(batch(), if_exists="keep") == 2
    assert (deferred_data("1"), verbs.present("absent").biz_ext, deferred_data("kept")) == ("new", "new", None)
    assert verbs.present("kept").biz_ext == "old"


@pytest.mark.parametrize("in_batches", [1, 1000])
def test_a_batch_that_is_refused_leaves_the_run_the_last(db: None, frozen: None, in_batches: int) -> None:
    """Nothing of the batch is written in which a task exists."""
    running_then(lambda: api.cancel_task(CODE, "1"), lambda: verbs.add("kept", biz_ext="old"))()
    with pytest.raises(TaskExists, match="kept"):
        api.add_tasks(batch(), if_exists="raise", batch_size=in_batches)
    assert deferred_data("1") == ("new" if in_batches == 1 else None)
    Task._base_manager.filter(biz_num="kept").delete()
    Task._base_manager.filter(biz_num="absent").delete()
    if in_batches > 1:
        assert api.add_tasks(batch(), if_exists="raise") == 3


def test_what_is_kept_while_it_stops_runs(db: None, frozen: None) -> None:
    """The data is kept from the cancellation to the next run."""
    run = running_then(lambda: api.cancel_task(CODE, "1"))()
    assert run
    assert verbs.add(biz_ext="kept", if_exists="keep").action == "deferred"
    verbs.settle(verbs.failed(run))
    assert verbs.claim_one().biz_ext == "kept"
    assert verbs.add(when=HOUR, if_exists="keep").action == "kept"

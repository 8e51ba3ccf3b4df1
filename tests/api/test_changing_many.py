"""Many tasks are changed as the call for one task changes each of them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test import override_settings

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask, UnknownCode
from django_delayed_tasks.models import EARLIEST, Task, TaskRun
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.schedules import verbs as portions
from django_delayed_tasks.triggers.values import LAST
from tests.store import recurring_states, states, verbs
from tests.store.meters import UNIT, reads, statements
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

pytestmark = pytest.mark.per_database

DAY = timedelta(days=1)
STATES = states.BEFORE | recurring_states.BEFORE
ALL = {"everything": True}
CALLS: dict[str, Callable[..., int]] = {
    "cancel": api.cancel_tasks,
    "retry": api.retry_tasks,
    "reschedule": lambda *given, **named: api.reschedule_tasks(*given, by=DAY, **named),
}
CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def next_time(task: Task) -> datetime:
    """The time from which ``reschedule_tasks`` counts."""
    time = (task.deferred_when or task.when) if task.status == TaskStatus.RUNNING else task.claim_at
    return max(time, NOW)


def one_by_one(verb: str) -> int:
    """Do the same by the calls for one task."""
    changed = 0
    for task in Task.objects.order_by("id"):
        match verb:
            case "cancel":
                changed += api.cancel_task(task.biz_code, task.biz_num) != "missing"
            case "reschedule":
                changed += api.reschedule_task(task.biz_code, task.biz_num, next_time(task) + DAY)
            case _:
                changed += len(portions.RETRY.to_seen(ALIAS, [(task.id, task.version)]))
    return changed


def everything() -> tuple[list[Any], ...]:
    """All tasks and the history, without primary keys: a statement changes its tasks in no particular order."""
    return tuple(
        [{**row, "id": 0, "task_id": 0} for row in model._default_manager.order_by("biz_num", "id").values()]
        for model in (Task, TaskRun)
    )


def after(state: str, change: Callable[[], int]) -> tuple[int, Any]:
    try:
        with transaction.atomic():
            STATES[state]()
            changed = change()
            result = changed, everything()
            raise InterruptedError
    except InterruptedError:
        return result


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("state", STATES)
def test_each_state_becomes_what_the_call_for_one_task_makes_of_it(
    db: None, frozen: None, state: str, verb: str
) -> None:
    single = after(state, lambda: one_by_one(verb))
    assert after(state, lambda: CALLS[verb](CODE, **ALL)) == single
    assert after(state, lambda: CALLS[verb](CODE, "1")) == single


@pytest.mark.parametrize("state", STATES)
def test_delete_tasks_is_another_name_of_cancel_tasks(db: None, frozen: None, state: str) -> None:
    assert after(state, lambda: api.delete_tasks(CODE, "1")) == after(state, lambda: api.cancel_tasks(CODE, "1"))


@pytest.mark.parametrize("verb", CALLS)
def test_tasks_in_many_states_at_once(db: None, frozen: None, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION", 2)

    def fill() -> None:
        for num in range(3):
            verbs.add(f"failed {num}")
            verbs.settle(verbs.failed(verbs.claim_one()))
        for num in range(3):
            verbs.add(f"running {num}")
            verbs.claim_one()
        for num in range(5):
            verbs.add(f"waiting {num}", num * HOUR)

    def found(change: Callable[[], int]) -> Any:
        fill()
        result = change(), everything()
        Task._base_manager.all().delete()
        TaskRun.objects.all().delete()
        return result

    assert found(lambda: CALLS[verb](CODE, **ALL)) == found(lambda: one_by_one(verb))


def nums(**filters: Any) -> set[str]:
    return set(Task.objects.filter(**filters).values_list("biz_num", flat=True))


def test_the_filters_are_those_of_the_finders(db: None, frozen: None) -> None:
    for num, hours in {"Spring-1": 1, "spring-2": 2, "SPRING-3": 3, "autumn-1": 1}.items():
        verbs.add(num, hours * HOUR)
    verbs.add("spring-1", HOUR, biz_code="other")
    filters: dict[str, Any] = {"due_after": NOW + HOUR, "due_before": NOW + 3 * HOUR}
    assert {task.biz_num for task in api.get_tasks_by_code(CODE, "sPRing", **filters)} == {"Spring-1", "spring-2"}
    assert api.cancel_tasks(CODE, "sPRing", **filters) == 2
    assert nums() == {"SPRING-3", "autumn-1", "spring-1"}
    assert api.reschedule_tasks(CODE, due_before=NOW + 2 * HOUR, by=-DAY) == 1
    assert Task.objects.get(biz_num="autumn-1").when == NOW - DAY + HOUR
    assert api.cancel_tasks(CODE, "%") == api.cancel_tasks(CODE, UUID(int=0)) == 0
    assert api.cancel_tasks(CODE, everything=True) == 2
    assert nums() == {"spring-1"}


def test_failed_since_a_moment(db: None, frozen: None) -> None:
    for num in ("1", "2"):
        verbs.add(num)
        verbs.settle(verbs.failed(verbs.claim_one()))
    Task._base_manager.filter(biz_num="1").update(update_time=NOW - HOUR)
    assert api.retry_tasks(CODE, failed_since=NOW + HOUR) == 0
    assert api.retry_tasks(CODE, failed_since=NOW) == 1
    assert nums(status=TaskStatus.PENDING) == {"2"}
    assert api.retry_tasks(CODE, failed_since=NOW - HOUR) == 1


@CALL
def test_all_tasks_of_a_code_only_if_that_is_said(db: None, call: Callable[..., int]) -> None:
    verbs.add("1", HOUR)
    before = list(Task.objects.values())
    for given in ([], [None], [""]):
        for flag in (False, 1, "yes", None):
            with pytest.raises(InvalidTask, match=r"^fragment=.*; pass everything=True if that is intended$"):
                call(CODE, *given, everything=flag)
    with pytest.raises(InvalidTask, match="everything=True"):
        call(CODE, "", due_after=EARLIEST)  # an empty text is most likely a mistake
    for num in (1, True):
        with pytest.raises(InvalidTask, match=r"^fragment=.*: would select all tasks whose number contains it"):
            call(CODE, num, everything=True)
    assert list(Task.objects.values()) == before


@CALL
@pytest.mark.parametrize(
    ("arguments", "named", "field"),
    [
        ((5, "1"), {}, "biz_code"),
        (("", "1"), {}, "biz_code"),
        (("c" * 51, "1"), {}, "biz_code"),
        ((CODE, b"1"), {}, "fragment"),
        ((CODE, "\0"), {}, "fragment"),
        ((CODE, "1"), {"due_before": HOUR}, "due_before"),
        ((CODE, "1"), {"due_after": datetime(2031, 1, 1)}, "due_after"),  # noqa: DTZ001
    ],
)
def test_wrong_values(db: None, call: Callable[..., int], arguments: Any, named: Any, field: str) -> None:
    with pytest.raises(InvalidTask, match=f"^{field}="):
        call(*arguments, **named)


@pytest.mark.parametrize("by", [None, 5, "1", NOW, timedelta(days=36_601), timedelta.min])
def test_what_is_no_offset(db: None, by: Any) -> None:
    with pytest.raises(InvalidTask, match=r"^by="):
        api.reschedule_tasks(CODE, "1", by=by)


@pytest.mark.parametrize("since", [HOUR, "", datetime(2031, 1, 1)])  # noqa: DTZ001
def test_what_is_no_moment_of_a_failure(db: None, since: Any) -> None:
    with pytest.raises(InvalidTask, match=r"^failed_since="):
        api.retry_tasks(CODE, failed_since=since)


@CALL
def test_an_unknown_code(db: None, call: Callable[..., int]) -> None:
    with override_settings(DELAYED_TASKS={}), pytest.raises(UnknownCode):
        call("cancel-unpayed-order", "1")


def test_no_time_is_beyond_the_last(db: None) -> None:
    """An error in the middle would leave a part of the tasks changed; nothing is lost by this date."""
    last = LAST - timedelta(days=2)
    verbs.add("1", last)
    verbs.add("2", HOUR)
    years = timedelta(days=36_500)
    assert api.reschedule_tasks(CODE, everything=True, by=years) == 2
    assert Task.objects.get(biz_num="1").when == LAST
    assert api.reschedule_tasks(CODE, everything=True, by=years) == 2
    assert api.reschedule_tasks(CODE, everything=True, by=-years) == 2
    assert Task.objects.get(biz_num="1").when == LAST - years


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(wakeup, "wake", lambda: told.append("woken"))
    monkeypatch.setattr(wakeup, "can_notify", lambda alias: False)
    monkeypatch.setattr(wakeup, "_sleepers", {Event()})
    return told


def test_executors_are_woken(live_db: str, woken: list[str]) -> None:
    verbs.add("1")
    verbs.settle(verbs.failed(verbs.claim_one()))
    woken.clear()
    api.retry_tasks(CODE, "1")
    api.reschedule_tasks(CODE, "1", by=-HOUR)
    assert woken == ["woken"] * 2


def test_statements_of_a_portion(live_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One to find the tasks; for each portion one to look, one to lock, and those that write."""
    monkeypatch.setattr(portions, "PORTION", 10)
    extra = live_db == "sqlite"  # there the lock is a statement of its own
    for call, writes in ((CALLS["reschedule"], 1), (CALLS["cancel"], 2)):
        api.add_tasks(verbs.task(f"{number:02}", HOUR) for number in range(30))
        with statements() as sent:
            assert call(CODE, "0") == 12
        notices = [sql for sql in sent if "notify" in sql or "IS_USED_LOCK" in sql]
        assert len(sent) - len(notices) == 1 + 2 * (2 + extra + writes)


def test_other_codes_are_not_read(live_db: str) -> None:
    """Nor are the rows of this code's tasks of other numbers, where the server can tell by the index."""
    api.add_tasks((verbs.task(f"{n}", n * HOUR, biz_code="other") for n in range(5000)), batch_size=5000)
    api.add_tasks(verbs.task(f"{n:03}-{'odd' if n % 2 else 'even'}", HOUR) for n in range(20))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE TABLE django_delayed_tasks_task" if connection.vendor == "mysql" else "ANALYZE")
    excess = {}
    for name, call in CALLS.items():
        with reads() as meter:
            assert call(CODE, "odd") == (0 if name == "retry" else 10)
        if meter.total > 250 * UNIT.get(live_db, 1):
            excess[name] = meter.total
        api.add_tasks(verbs.task(f"{n:03}-odd", HOUR) for n in range(1, 20, 2))
    assert excess == {}

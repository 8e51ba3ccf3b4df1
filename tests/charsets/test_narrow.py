"""PostgreSQL with another encoding than UTF8: what a run has said is written in ASCII, and what follows is not lost."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Done, Fail, Reschedule, Retry, api
from django_delayed_tasks.handlers import TaskHandler, register_task_handler
from django_delayed_tasks.models import Statistic, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.progress import Report, write_progress
from django_delayed_tasks.store.records.rollup import Cell
from django_delayed_tasks.store.settling.settlement import RESULT_CHANGED
from django_delayed_tasks.triggers import Interval
from tests.executor.parts import add, claim, drain, handler_of, registered
from tests.store import verbs

pytestmark = pytest.mark.usefixtures("narrow")

SAID = "支付失败😀"
ESCAPED = r"\u652f\u4ed8\u5931\u8d25\U0001f600"
HOUR = timedelta(hours=1)


def fail(task: Any) -> None:
    raise ValueError(SAID)


def outcomes(num: str = "1") -> list[RunOutcome]:
    return verbs.outcomes(num, "code")


def is_in_an_hour(task: Task) -> bool:
    return HOUR / 2 < task.claim_at - task.update_time < HOUR * 2


def test_retries_are_not_lost() -> None:
    told: list[str] = []
    handler_of(
        fail,
        max_attempts=3,
        backoff=lambda self, attempt: timedelta(),
        on_failed=lambda self, task, error: told.append(error),
    )
    add()
    drain()
    assert outcomes() == [RunOutcome.RETRIED, RunOutcome.RETRIED, RunOutcome.FAILED]
    task = Task.objects.get()
    assert task.status == TaskStatus.FAILED
    assert task.last_error.endswith(f"ValueError: {ESCAPED}\n")
    assert all(run.error.endswith(f"ValueError: {ESCAPED}\n") for run in TaskRun.objects.all())
    assert len(told) == 1


def test_the_next_time_is_not_lost() -> None:
    handler_of(fail, max_attempts=1)
    add(trigger=Interval(hours=1), when=timedelta())
    drain()
    assert outcomes() == [RunOutcome.FAILED]
    task = Task.objects.get()
    assert (task.status, is_in_an_hour(task)) == (TaskStatus.PENDING, True)
    assert ESCAPED in task.last_error


@pytest.mark.parametrize("atomic", [False, True])
def test_a_retry_comes_when_the_handler_said(atomic: bool) -> None:
    def handle(task: Any) -> Retry:
        api.add_task(Task(biz_code="effect", biz_num="1", when=HOUR))
        return Retry(after=HOUR, reason=SAID)

    handler_of(handle, max_attempts=3, atomic=atomic)
    add()
    drain()
    [run] = TaskRun.objects.all()
    assert (run.outcome, run.error) == (RunOutcome.RETRIED, ESCAPED)
    task = Task.objects.get(biz_code="code")
    assert (task.status, is_in_an_hour(task)) == (TaskStatus.PENDING, True)
    assert Task.objects.filter(biz_code="effect").exists()


@pytest.mark.parametrize("atomic", [False, True])
def test_what_was_done_stays_done_whatever_its_result(atomic: bool) -> None:
    handler_of(lambda task: Done(result={"said": [SAID, 'é"\\']}), max_attempts=1, atomic=atomic)
    add()
    add("2", trigger=Interval(hours=1), when=timedelta())
    drain()
    assert (outcomes("1"), outcomes("2")) == ([RunOutcome.DONE], [RunOutcome.DONE])
    assert Task.objects.get().biz_num == "2"
    for run in TaskRun.objects.all():
        assert run.result == {"said": [ESCAPED, r'\xe9"' + "\\"]}
        assert run.error == RESULT_CHANGED


@pytest.mark.parametrize("atomic", [False, True])
def test_the_run_has_failed_if_its_data_for_the_next_one_cannot_be_held(atomic: bool) -> None:
    handler_of(lambda task: Reschedule(HOUR, biz_ext={"said": SAID}), max_attempts=1, atomic=atomic)
    add(biz_ext={"said": "nothing"})
    drain()
    task = Task.objects.get()
    assert (task.status, task.biz_ext) == (TaskStatus.FAILED, {"said": "nothing"})


@pytest.mark.parametrize("is_atomic", [False, True])
def test_batches(is_atomic: bool) -> None:
    ends = {"1": Retry(after=HOUR, reason=SAID), "2": None, "3": Fail(SAID), "4": Done(result=1), "5": Fail("plain é")}

    class Batch(TaskHandler):
        biz_code = "code"
        atomic = is_atomic

        def handle_batch(self, tasks: list[Any]) -> list[Any]:
            return [ends[task.biz_num] for task in tasks]

    register_task_handler(Batch())
    for num in ends:
        add(num)
    drain(threads=5)
    assert {num: [outcome.name for outcome in outcomes(num)] for num in ends} == {
        "1": ["RETRIED"], "2": ["DONE"], "3": ["FAILED"], "4": ["DONE"], "5": ["FAILED"],
    }  # fmt: skip
    assert Task.objects.get(biz_num="3").last_error == ESCAPED
    assert Task.objects.get(biz_num="1").status == TaskStatus.PENDING


def test_a_note_does_not_keep_the_others_from_being_written() -> None:
    for num in "12":
        add(num)
    one, other = (task.claim for task in claim(registered()))
    write_progress("default", {one: Report(0.5, "half"), other: Report(0.25, SAID * 40)})
    notes = dict(Task.objects.values_list("progress_fraction", "progress_note"))
    assert notes == {0.5: "half", 0.25: (ESCAPED * 40)[:200]}


def test_statistics_count_errors_that_are_alike_in_ascii_together() -> None:
    counts = {("alike", int(RunOutcome.FAILED), error): Cell(runs=1) for error in (SAID, ESCAPED, "plain")}
    rollup.add("default", counts, verbs.NOW)
    found = set(Statistic.objects.filter(grain=rollup.DAY, biz_code="alike").values_list("error", "runs"))
    assert found == {(ESCAPED, 2), ("plain", 1)}


def test_a_key_that_the_database_cannot_hold() -> None:
    ran: list[str] = []
    limits: dict[str, Any] = {"max_concurrent": 1, "concurrency_key": lambda self, task: SAID}
    handler_of(lambda task: ran.append(task.biz_num), **limits)
    add("1")
    add("2")
    drain()
    assert ran == ["1", "2"]

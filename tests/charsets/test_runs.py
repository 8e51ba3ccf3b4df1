"""A run gets what was added and leaves what it said, whatever the defaults of the database are."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Done, Retry, api
from django_delayed_tasks.exceptions import UnknownPool
from django_delayed_tasks.handlers import TaskHandler, register_task_handler
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.store.records.progress import Report, write_progress
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.resources.resources import WantedResource
from tests.charsets.texts import MIXED, TEXTS, TWINS
from tests.executor.parts import add, claim, drain, handler_of, registered
from tests.store import verbs
from tests.store.resources.taking import take_slots
from tests.store.verbs import ALIAS, HOUR

pytestmark = pytest.mark.usefixtures("whole")

DATA = {text: [text, {text: text}] for text in TEXTS}


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("in_bulk", [False, True])
def test_results_and_errors_are_kept(in_bulk: bool, atomic: bool) -> None:
    seen: dict[str, Any] = {}

    def handle(task: Any) -> Any:
        seen[task.biz_num] = task.biz_ext
        if task.biz_num in "12":
            return Done(result=task.biz_ext)
        raise ValueError(MIXED)

    handler_of(handle, max_attempts=1, atomic=atomic)
    tasks = [verbs.task(num, biz_code="code", biz_ext=DATA) for num in "1234"]
    if in_bulk:
        api.add_tasks(tasks)
    else:
        for task in tasks:
            api.add_task(task)
    drain()
    assert seen == dict.fromkeys("1234", DATA)
    runs = {run.biz_num: run for run in TaskRun.objects.all()}
    assert [runs[num].result for num in "12"] == [DATA, DATA]
    assert [runs[num].error.endswith(f"ValueError: {MIXED}\n") for num in "34"] == [True, True]
    assert all(task.last_error.endswith(f"ValueError: {MIXED}\n") for task in Task.objects.all())


def test_batches_leave_what_they_said() -> None:
    class Batch(TaskHandler):
        biz_code = "code"

        def handle_batch(self, tasks: list[Any]) -> list[Any]:
            later = timedelta(days=1)  # not during the drain, however long that takes
            return [Retry(later, task.biz_num) if n % 2 else Done(result=task.biz_num) for n, task in enumerate(tasks)]

    register_task_handler(Batch())
    api.add_tasks(verbs.task(text, biz_code="code") for text in TEXTS)
    drain(threads=10)
    assert sorted(run.result or run.error for run in TaskRun.objects.all()) == sorted(TEXTS)


def test_progress_is_kept() -> None:
    for text in TEXTS:
        add(text)
    held = {task.claim: task.biz_num for task in claim(registered())}
    write_progress("default", {claim: Report(0.5, text) for claim, text in held.items()})
    assert dict(Task.objects.values_list("biz_num", "progress_note")) == {text: text for text in TEXTS}


def test_resources_are_told_apart() -> None:
    pool = Pool(MIXED)
    for text in TEXTS:
        pool.add(text, {text: text})
    assert {row.name: row.payload for row in pool.resources()} == {text: {text: text} for text in TEXTS}
    ones, others = map(set, zip(*TWINS, strict=True))
    for one in ones:
        assert pool.disable(one)
    with pool.lease(wait=0) as leased:
        assert leased.name in others
        assert leased.payload == {leased.name: leased.name}
    for other in others:
        assert pool.remove(other)
    assert {row.name for row in pool.resources()} == ones


def test_a_mutex_and_its_state_are_told_apart() -> None:
    for one, other in TWINS[:6]:
        with mutex(one, ttl=30) as held, mutex(other, ttl=30) as second:
            held.state, second.state = {one: one}, {other: other}
        with mutex(one, ttl=30) as held, mutex(other, ttl=30) as second:
            assert (held.state, second.state) == ({one: one}, {other: other})


def test_pools_and_who_waits_for_them_are_told_apart() -> None:
    for one, other in TWINS:
        Pool(one).add("resource")
        place = line.enter(ALIAS, WantedResource(one, ""), HOUR)
        with pytest.raises(UnknownPool), Pool(other).lease(wait=0):
            pass
        assert line.queue_view(ALIAS, WantedResource(other, "")).ahead == 0
        assert line.queue_view(ALIAS, WantedResource(one, ""), place).is_in_line


def test_keys_of_a_limit_are_told_apart() -> None:
    verbs.add("1")
    verbs.add("2")
    first, second = (task.claim for task in verbs.claim())
    for one, other in TWINS:
        assert take_slots(ALIAS, one, 1, {one: [first], other: [second]}, 2).keys() == {first, second}

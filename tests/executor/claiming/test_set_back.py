"""The database is emptied, or set back by a backup, under running executors: ids and versions are given again.

No executor takes another one for itself, and no end of a run from before meets a claim from after.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection, models

from django_delayed_tasks.clock import monotonic
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.membership.lease import Heartbeat
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import Bench, add, handler_of, registered

pytestmark = pytest.mark.usefixtures("live_db")

TASKS = 12


@pytest.fixture(autouse=True)
def _as_new(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ids begin at 1, and are not kept from doing so."""
    ops = connection.ops
    monkeypatch.setattr(ops, "sql_flush", partial(type(ops).sql_flush, ops))  # that of the tests resets no sequences
    flush()
    yield
    flush()


@pytest.fixture
def ran() -> Counter[str]:
    """How often each task has run."""
    counts: Counter[str] = Counter()
    handler_of(lambda task: counts.update([task.biz_num]))
    return counts


@pytest.fixture
def pair() -> Iterator[tuple[Bench, Bench]]:
    """Two executors, of which the first has registered first."""
    both = Bench("one", threads=TASKS), Bench("two", threads=TASKS)
    yield both
    for bench in both:
        bench.end()


def flush() -> None:
    """Do what ``manage.py flush`` does."""
    call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)


class Backup:
    """The contents of the tables, with the state of what gives ids."""

    def __init__(self) -> None:
        self._models = list(apps.get_app_config("django_delayed_tasks").get_models())
        self._rows: dict[type[models.Model], list[Any]] = {
            model: list(model._base_manager.all()) for model in self._models if model._meta.managed
        }

    def restore(self) -> None:
        flush()
        for model, rows in self._rows.items():
            model._base_manager.bulk_create(rows)
        with connection.cursor() as cursor:
            for sql in connection.ops.sequence_reset_sql(no_style(), self._models):
                cursor.execute(sql)


def beat(bench: Bench) -> None:
    """Let an executor renew its lease, or find that it has none."""
    Heartbeat(bench.options, bench.lease, bench.worn_out).beat()


def claim(bench: Bench) -> None:
    """Poll, and look for claims whose answer was lost."""
    bench.poller.forget()
    bench.poller.poll()
    settle(bench)


def run(bench: Bench) -> None:
    """Run what was claimed, and settle it."""
    for task in bench.queue.take_back():
        bench.performer.perform(CurrentRun([task], monotonic()))
    settle(bench)


def settle(bench: Bench) -> None:
    """Settle what has ended."""
    if batch := bench.settler._next_batch():
        bench.settler.settle(batch)


def claimed_by(bench: Bench) -> ClaimedTask:
    """The one task that this executor claims now."""
    bench.poller.poll()
    [task] = bench.queue.take_back()
    return task


def history() -> dict[str, list[RunOutcome]]:
    """The outcomes of the runs of each task."""
    found: dict[str, list[RunOutcome]] = {}
    for num, outcome in TaskRun.objects.order_by("id").values_list("biz_num", "outcome"):
        found.setdefault(num, []).append(RunOutcome(outcome))
    return found


def set_back_by_flush() -> Callable[[], None]:
    return flush


def set_back_by_backup() -> Callable[[], None]:
    """A backup from before the two executors registered."""
    executors.retire("default", registered("before"))
    return Backup().restore


WAYS = {"flush": set_back_by_flush, "backup": set_back_by_backup}


@pytest.mark.parametrize("first", [0, 1], ids=["one renews first", "two renews first"])
@pytest.mark.parametrize("way", WAYS)
def test_each_task_runs_once_afterwards(way: str, first: int, ran: Counter[str]) -> None:
    set_back = WAYS[way]()
    one, two = Bench("one", threads=TASKS), Bench("two", threads=TASKS)
    before = {one.lease.executor, two.lease.executor}
    set_back()
    for bench in (one, two)[:: -1 if first else 1]:
        beat(bench)
    numbers = list(map(str, range(TASKS)))
    for num in numbers:
        add(num)
    for _ in range(3):
        for bench in (one, two):
            claim(bench)
    for bench in (one, two, one, two):
        run(bench)
        claim(bench)
        beat(bench)
    assert ran == dict.fromkeys(numbers, 1)
    assert (history(), Task.objects.count()) == ({num: [RunOutcome.DONE] for num in numbers}, 0)
    assert set(Executor.objects.filter(alive=True).values_list("name", flat=True)) == {"one", "two"}
    assert len(before | {one.lease.executor, two.lease.executor}) == 4
    for bench in (one, two):
        bench.end()


def ends(task: ClaimedTask, outcome: RunOutcome, then: NextState) -> Settlement:
    return Settlement(task.claim, outcome, then, error="from before")


STALE = {
    "done": (RunOutcome.DONE, NextState.GONE),
    "retried": (RunOutcome.RETRIED, NextState.RETRY),
    "failed": (RunOutcome.FAILED, NextState.FAILED),
    "released": (RunOutcome.LOST, NextState.RELEASED),
}
"""How a run from before ends."""


@pytest.fixture(params=[0, 1], ids=["of this executor", "of another executor"])
def strangers(request: pytest.FixtureRequest, pair: tuple[Bench, Bench]) -> tuple[Bench, ClaimedTask, ClaimedTask]:
    """An executor, the task that it runs since before a flush, and one claimed since with its id and version."""
    handler_of(lambda task: None)
    add("before")
    old = claimed_by(pair[0])
    flush()
    for bench in pair[::-1]:
        beat(bench)
    add("after")
    new = claimed_by(pair[request.param])
    assert (old.id, old.version) == (new.id, new.version)
    return pair[0], old, new


@pytest.mark.parametrize("end", STALE)
def test_an_end_from_before_meets_no_stranger(strangers: tuple[Bench, ClaimedTask, ClaimedTask], end: str) -> None:
    bench, old, new = strangers
    bench.settler.settle([ends(old, *STALE[end])])
    assert (history(), Task.objects.get().status) == ({}, TaskStatus.RUNNING)
    bench.settler.settle([ends(new, RunOutcome.DONE, NextState.GONE)])
    assert (history(), Task.objects.count()) == ({"after": [RunOutcome.DONE]}, 0)


@pytest.mark.parametrize("order", [1, -1], ids=["the old one first", "the new one first"])
@pytest.mark.parametrize("end", STALE)
def test_nor_in_one_batch(strangers: tuple[Bench, ClaimedTask, ClaimedTask], end: str, order: int) -> None:
    bench, old, new = strangers
    batch = [ends(old, *STALE[end]), ends(new, RunOutcome.DONE, NextState.GONE)][::order]
    bench.settler.settle(batch)
    assert (history(), Task.objects.count()) == ({"after": [RunOutcome.DONE]}, 0)


def test_a_run_from_before_is_told_nothing_of_a_stranger(strangers: tuple[Bench, ClaimedTask, ClaimedTask]) -> None:
    _, old, new = strangers
    Task._base_manager.update(cancel_requested_at=Task.objects.get().create_time)
    assert (old.cancel_requested, new.cancel_requested) == (False, True)
    new.check_claim()
    with pytest.raises(ClaimLost):
        old.check_claim()


def test_an_end_from_before_a_backup_meets_no_stranger(ran: Counter[str]) -> None:
    """The task itself is claimed again, in the version that the lost claim had."""
    add("task")
    set_back = set_back_by_backup()
    one, two = Bench("one"), Bench("two")
    old = claimed_by(one)
    set_back()
    for bench in (two, one):
        beat(bench)
    new = claimed_by(two)
    assert (old.id, old.version) == (new.id, new.version)
    one.settler.settle([ends(old, RunOutcome.FAILED, NextState.FAILED)])
    assert (history(), Task.objects.get().status) == ({}, TaskStatus.RUNNING)
    two.performer.perform(CurrentRun([new], monotonic()))
    settle(two)
    assert (ran, history()) == ({"task": 1}, {"task": [RunOutcome.DONE]})
    for bench in (one, two):
        bench.end()

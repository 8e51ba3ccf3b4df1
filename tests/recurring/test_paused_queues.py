"""Queues that stand still."""

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_delayed_tasks import Task, api
from django_delayed_tasks.clock import EPOCH
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import Executor, PausedQueue
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, look
from tests.executor.parts import Bench, add, handler_of
from tests.recurring.machine import Machine
from tests.store.meters import UNIT, reads, statements
from tests.store.test_reads import refresh_statistics

pytestmark = pytest.mark.django_db


@pytest.fixture
def bench(machine: Machine) -> Any:
    handler_of(lambda task: None)
    made = Bench()
    yield made
    made.end()


def test_nothing_of_it_is_claimed(bench: Bench) -> None:
    add("waits", queue="slow")
    add("goes", queue="fast")
    assert api.pause_queue("slow")
    bench.poller.poll()
    bench.poller.poll()
    assert bench.numbers == ["goes"]
    assert api.resume_queue("slow")
    bench.poller.poll()
    assert bench.numbers == ["goes", "waits"]


@pytest.mark.parametrize("name", ["slow", "Slow", "langsam: 'ö' \\ \"x\"", "%s"])
def test_names_are_exact(bench: Bench, name: str) -> None:
    add("waits", queue=name)
    add("goes", queue="SLOW")
    api.pause_queue(name)
    assert [level.queue for level in read_agenda("default").levels] == ["SLOW"]


def test_many(bench: Bench) -> None:
    for number in range(100):
        api.pause_queue(f"{number:050}")
    add("goes")
    assert [level.queue for level in read_agenda("default").levels] == ["default"]


@pytest.fixture
def short_aggregates() -> Iterator[None]:
    """The server cuts off what it puts together of many rows, where it has a setting for that."""
    is_mysql = connection.vendor == "mysql"
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION group_concat_max_len = 64" if is_mysql else "SELECT 1")
        yield
        cursor.execute("SET SESSION group_concat_max_len = DEFAULT" if is_mysql else "SELECT 1")


@pytest.mark.usefixtures("short_aggregates")
def test_many_where_aggregates_are_short(bench: Bench) -> None:
    for number in range(100):
        api.pause_queue(f"{number:050}")
    add("waits", queue=f"{99:050}")
    add("goes")
    known = KnownLevels({("", "default", 0): EPOCH, ("", f"{99:050}", 0): EPOCH}, frozenset(), EPOCH)
    for agenda in (read_agenda("default"), look("default", known)):
        assert [level.queue for level in agenda.levels] == ["default"]


def test_it_is_asked_in_the_same_breath(bench: Bench) -> None:
    add("waits", queue="slow")
    with statements() as before:
        read_agenda("default")
    api.pause_queue("slow")
    with statements() as after:
        read_agenda("default")
    assert len(after) == len(before)


@pytest.mark.django_db(transaction=True)
def test_a_long_one_costs_no_more_than_a_short_one(bench: Bench) -> None:
    costs = []
    api.pause_queue("slow")
    for size in (1, 5000):
        api.add_tasks(Task(biz_code="code", biz_num=f"{size}-{n}", queue="slow") for n in range(size))
        refresh_statistics(connection.vendor)
        bench.poller.poll()
        with reads() as meter:
            bench.poller.poll()
        costs.append(meter.total)
    assert costs[1] <= costs[0] + 20 * UNIT.get(connection.vendor, 1)
    assert bench.numbers == []


def test_twice_and_never(bench: Bench) -> None:
    assert [api.pause_queue("slow"), api.pause_queue("slow")] == [True, False]
    assert [api.resume_queue("slow"), api.resume_queue("slow")] == [True, False]


@pytest.mark.parametrize("name", ["", "x" * 51, None, 5, " x"])
def test_no_name(bench: Bench, name: Any) -> None:
    for call in (api.pause_queue, api.resume_queue):
        with pytest.raises(InvalidTask, match="queue="):
            call(name)


class TestCommand:
    def said(self, *arguments: str, doubts: str = "") -> str:
        out, err = StringIO(), StringIO()
        call_command("pausequeue", *arguments, stdout=out, stderr=err)
        assert err.getvalue() == doubts
        return out.getvalue()

    def test_pause_list_resume(self, bench: Bench) -> None:
        add("1", queue="slow")
        assert self.said("slow") == "The queue 'slow' is paused.\n"
        assert self.said("slow") == "The queue 'slow' is paused already.\n"
        assert self.said().startswith("slow\t20")
        assert self.said("slow", "--resume") == "The queue 'slow' is running.\n"
        assert self.said(doubts="No queue is paused.\n") == ""
        assert not PausedQueue.objects.exists()

    @pytest.mark.parametrize("named_by", ["a task", "a handler", "an executor"])
    def test_a_queue_that_is_named_nowhere_may_be_misspelled(self, bench: Bench, named_by: str) -> None:
        if named_by == "a task":
            add("1", queue="mail")
            Task._base_manager.update(status=TaskStatus.FAILED)
        elif named_by == "a handler":
            handler_of(lambda task: None, code="letter", queue="mail")
        else:
            Executor.objects.filter(alive=True).update(queues=["mail"])
        self.said("mail")
        doubts = "No task, handler or executor names this queue: is it spelled right?\n"
        assert self.said("mial", doubts=doubts) == "The queue 'mial' is paused.\n"
        self.said("mial", "--resume")

    @pytest.mark.parametrize("arguments", [["x" * 51], ["--resume"]])
    def test_bad_input(self, db: None, arguments: list[str]) -> None:
        with pytest.raises(CommandError):
            self.said(*arguments)

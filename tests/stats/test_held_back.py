"""Rescued tasks that are held back while another one runs: they are not late, and pages and commands say so."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from django_delayed_tasks import pause_queue, stats
from django_delayed_tasks.metrics.cluster import read_cluster
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats import suspects
from django_delayed_tasks.stats.limits import waits_of
from django_delayed_tasks.stats.snapshot import take_snapshot
from django_delayed_tasks.stats.suspects import HeldBack, Suspect
from django_delayed_tasks.stats.why import told
from django_delayed_tasks.store.claiming import waiting
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, task

pytestmark = [pytest.mark.per_database, pytest.mark.django_db, pytest.mark.usefixtures("frozen")]


def run_on(owner: Executor, num: str, rescues: int) -> None:
    """A task that has run for a minute."""
    task(num, NOW - HOUR, status=TaskStatus.RUNNING, executor=owner.pk, rescues=rescues, update_time=NOW - MINUTE)


def due(num: str, rescues: int, late: Any = 2 * MINUTE) -> Any:
    return task(num, NOW - late, claim_at=NOW - late, rescues=rescues)


@pytest.fixture
def web() -> Executor:
    return executor("web", codes=[CODE], threads=8)


def held_back() -> HeldBack | None:
    [queue] = stats.backlog().queues
    assert not queue.is_late
    return queue.held_back


def test_what_is_held_back_is_not_late(web: Executor) -> None:
    run_on(web, "long", rescues=2)
    due("a", rescues=1)
    due("b", rescues=2, late=3 * MINUTE)
    assert held_back() == HeldBack("default", 2, NOW - 3 * MINUTE, [Suspect(CODE, "long", "web", MINUTE)])
    [queue] = stats.backlog().queues
    assert (queue.due, queue.ready, queue.latency.total_seconds()) == (2, 0, 0)
    assert read_cluster("default").overdue == {"default": 0.0}


def test_one_that_was_never_rescued_is(web: Executor) -> None:
    run_on(web, "long", rescues=2)
    due("rescued", rescues=2, late=3 * MINUTE)
    due("fresh", rescues=0)
    [queue] = stats.backlog().queues
    assert (queue.is_late, queue.latency, queue.ready, queue.held_back and queue.held_back.tasks) == (
        True, 2 * MINUTE, 1, 1,
    )  # fmt: skip
    assert read_cluster("default").overdue == {"default": 120.0}


@pytest.mark.parametrize(("running", "rescues", "is_held_back"), [(1, 1, False), (1, 2, True), (2, 1, True)])
def test_what_is_held_back_beside_what(web: Executor, running: int, rescues: int, is_held_back: bool) -> None:
    run_on(web, "long", running)
    row = due("due", rescues)
    [queue] = stats.backlog().queues
    assert (queue.held_back is not None, queue.is_late) == (is_held_back, not is_held_back)
    assert ("held back" in told(row, NOW)) == is_held_back


def test_not_if_another_executor_of_the_queue_may_take_it(web: Executor) -> None:
    run_on(web, "long", rescues=2)
    due("due", rescues=2)
    other = executor("other", codes=[CODE], queues=["mail"])
    assert held_back()
    Executor.objects.filter(pk=other.pk).update(queues=None)
    [queue] = stats.backlog().queues
    assert (queue.held_back, queue.is_late) == (None, True)


def test_a_paused_queue_has_another_reason(web: Executor) -> None:
    run_on(web, "long", rescues=2)
    due("due", rescues=2)
    pause_queue("default")
    assert held_back() is None


def test_at_most_a_bound_of_them_is_read(web: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "COUNTED", 3)
    monkeypatch.setattr(suspects, "COUNTED", 3)
    run_on(web, "long", rescues=2)
    for number in range(6):
        due(str(number), rescues=2)
    [queue] = stats.backlog().queues
    assert queue.held_back
    assert (queue.held_back.tasks, queue.ready, queue.is_late) == (4, 0, False)


def test_what_people_read(web: Executor) -> None:
    run_on(web, "long", rescues=2)
    row = due("due", rescues=1)
    behind = f"{CODE} long runs on web (for 1 min)"
    text = (
        "Executors died while tasks of the queue “default” ran, and one of these may be the cause, so they run one at a"
        f" time: 1 task held back, the first for 2 min, while {behind}."
    )
    [problem] = [problem for problem in stats.problems() if problem.kind == "held_back"]
    assert (problem.level, problem.subject, problem.text) == ("warning", "default", text)
    assert not [problem for problem in stats.problems() if problem.kind.startswith("late")]
    why = told(row, NOW)
    assert why.endswith(f"one of them may be the cause ({behind})")
    output = StringIO()
    call_command("taskhealth", stdout=output)
    assert output.getvalue().startswith("OK: 1 alive, no task is late (limit 60 s), 1 task is held back while another")
    output = StringIO()
    call_command("taskstatus", stdout=output)
    assert "nothing late" in output.getvalue()
    assert f"WARNING: {text}" in output.getvalue()


def test_nothing_more_is_read_while_nothing_is_late(web: Executor) -> None:
    due("due", rescues=2, late=MINUTE / 60)
    seen = take_snapshot()
    assert waits_of(seen).apart.held_back == []
    assert "running" not in vars(seen)

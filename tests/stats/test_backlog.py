"""What waits: queues, who serves them, how late they are; what runs."""

from datetime import timedelta

import pytest

from django_delayed_tasks import pause_queue, stats
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats import backlogs, snapshot
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, new_task, task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def queue(name: str) -> stats.QueueBacklog:
    """One queue of the backlog."""
    [found] = [queue for queue in stats.backlog().queues if queue.name == name]
    return found


def due(num: str, late: timedelta = MINUTE, **fields: object) -> Task:
    return task(num, NOW - late, claim_at=NOW - late, **fields)


def test_nothing() -> None:
    backlog = stats.backlog()
    assert (backlog.queues, backlog.pending, backlog.running, backlog.failed, backlog.late) == ([], 0, 0, 0, [])
    assert backlog.latency == timedelta()


def test_late_queues_with_the_latest_first() -> None:
    due("1", MINUTE, queue="mail")
    due("2", HOUR, queue="slow")
    due("3", 2 * MINUTE, queue="mail", priority=5)
    due("4", timedelta(seconds=2), queue="quick")
    task("5", queue="later")
    backlog = stats.backlog()
    assert [(queue.name, queue.due, queue.latency) for queue in backlog.late] == [
        ("slow", 1, HOUR),
        ("mail", 2, 2 * MINUTE),
    ]
    assert (backlog.late_tasks, backlog.latency, backlog.pending) == (3, HOUR, 5)
    assert (queue("later").due, queue("later").earliest) == (0, NOW + HOUR)


def test_a_paused_queue_is_not_late() -> None:
    due("1", queue="mail")
    pause_queue("mail")
    assert queue("mail").paused_at == NOW
    assert (queue("mail").due, queue("mail").is_late, stats.backlog().late) == (1, False, [])


def test_served_by() -> None:
    for name, queues, excluded in (("a", None, []), ("b", ["mail"], []), ("c", None, ["mail"])):
        executor(name, queues=queues, exclude_queues=excluded)
    executor("ran out", expires_at=NOW - MINUTE)
    executor("ended", alive=None)
    due("1", queue="mail")
    due("2", queue="shop")
    assert queue("mail").served_by == ["a", "b"]
    assert queue("shop").served_by == ["a", "c"]


def test_all_that_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backlogs, snapshot):
        monkeypatch.setattr(module, "MAX_RUNNING", 3)
    for number in range(5):
        task(f"{number}", NOW, status=TaskStatus.RUNNING, update_time=NOW)
    assert stats.backlog().running == 5


def test_there_run_no_fewer_than_those_that_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backlogs, snapshot):
        monkeypatch.setattr(module, "MAX_RUNNING", 3)
    for module in (backlogs, waiting):
        monkeypatch.setattr(module, "COUNTED", 2)
    for number in range(5):
        task(f"{number}", NOW, status=TaskStatus.RUNNING, update_time=NOW)
    assert stats.backlog().running == 4


def test_running_with_the_longest() -> None:
    owner = executor("web1")
    for number in range(12):
        since = NOW - (number + 1) * MINUTE
        running = task(f"{number}", NOW, status=TaskStatus.RUNNING, update_time=since, executor=owner.pk, queue="q")
        assert running.pk
    backlog = stats.backlog()
    assert (backlog.running, len(backlog.longest), queue("q").running) == (12, 10, 12)
    first = backlog.longest[0]
    assert (first.code, first.number, first.duration, first.executor) == (CODE, "11", 12 * MINUTE, "web1")
    assert backlog.claimed == {owner.pk: 12}
    Executor.objects.update(alive=None)
    assert stats.backlog().longest[0].executor == "web1"


def test_counts_are_exact_up_to_a_bound_and_then_surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_delayed_tasks.executor.membership.surveyor import take_survey
    from django_delayed_tasks.stats import backlogs

    for module in (waiting, backlogs):
        monkeypatch.setattr(module, "COUNTED", 10)
    Task._base_manager.bulk_create(new_task(f"f{i}", status=TaskStatus.FAILED) for i in range(25))
    Task._base_manager.bulk_create(new_task(f"p{i}", queue="mail") for i in range(30))
    assert (stats.backlog().failed, stats.backlog().pending) == (11, 11)  # more than ten
    assert queue("mail").pending is None
    take_survey("default")
    assert (stats.backlog().failed, stats.backlog().pending, queue("mail").pending) == (25, 30, 30)


def test_the_queues_together_are_the_total_whatever_the_survey_saw() -> None:
    from django_delayed_tasks.executor.membership.surveyor import take_survey

    for number in range(5):
        task(f"{number}", queue="mail")
    take_survey("default")
    Task._base_manager.filter(biz_num__in=["0", "1", "2"]).delete()
    due("late", queue="shop")
    task("blocked", NOW - MINUTE, claim_at=NOW - MINUTE, queue="shop", lane=blocked_lane(CODE, "key"))
    task("failed", queue="mail", status=TaskStatus.FAILED)
    backlog = stats.backlog()
    assert {queue.name: queue.pending for queue in backlog.queues} == {"mail": 2, "shop": 2}
    assert backlog.pending == 4


def test_a_queue_without_pending_tasks_has_none() -> None:
    pause_queue("mail")
    assert queue("mail").pending == 0


def test_as_json_is_plain() -> None:
    import json

    due("1", queue="mail")
    task("2", status=TaskStatus.RUNNING)
    data = json.loads(json.dumps(stats.backlog().as_json()))
    assert (data["late"], data["latency"], data["queues"][0]["name"]) == (1, 60.0, "mail")
    assert data["longest"][0]["number"] == "2"

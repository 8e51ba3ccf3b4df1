"""Run now, postpone, retry, edit: changes in the admin, fenced by the versions that the page showed."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules.verbs import RETRY, RUN_NOW, Edit, Verb, postponing
from django_delayed_tasks.store.sql.fences import Seen
from tests.store.verbs import ALIAS, HOUR, NOW, add, claim_one, failed, present, retry, settle
from tests.threads import start_thread
from tests.waiting import wait_until

MINUTE = timedelta(minutes=1)
VERBS: dict[str, Verb] = {
    "run now": RUN_NOW,
    "postpone": postponing(HOUR),
    "retry failed": RETRY,
    "edit": Edit(when=NOW + HOUR).verb(),
}
APPLIES_TO = {
    "run now": [TaskStatus.PENDING],
    "postpone": [TaskStatus.PENDING],
    "retry failed": [TaskStatus.FAILED],
    "edit": [TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.PAUSED],
}
BOTH = [(name, status) for name in VERBS for status in TaskStatus]


def waiting(when: datetime = NOW + HOUR, **fields: Any) -> Task:
    """A pending task."""
    add(when=when, **fields)
    return present()


def backing_off(after: timedelta = 10 * MINUTE) -> Task:
    """A pending task after a failed attempt, ``when`` an hour ago."""
    add(when=NOW - HOUR)
    settle(retry(claim_one(), after, "the first attempt"))
    return present()


def given_up(when: datetime = NOW - HOUR) -> Task:
    """A failed task."""
    add(when=NOW - HOUR)
    settle(failed(claim_one()))
    Task._base_manager.update(when=when)
    return present()


def in_status(status: TaskStatus) -> Task:
    """A task in this status."""
    if status == TaskStatus.RUNNING:
        add(when=NOW)
        claim_one()
        return present()
    if status == TaskStatus.FAILED:
        return given_up()
    task = waiting()
    if status == TaskStatus.PAUSED:
        api.pause_task(task.biz_code, task.biz_num)
    return present()


def seen(task: Task) -> Seen:
    """Return the id and the version that the page showed."""
    return task.pk, task.version


def contents(task: Task) -> dict[str, Any]:
    """Return the value of every column."""
    return {field.attname: getattr(task, field.attname) for field in Task._meta.concrete_fields}


def is_fresh(task: Task, before: Task) -> bool:
    """Pending, with another version and its attempt counter reset."""
    is_new = (task.status, task.attempts, task.rescues, task.last_error) == (TaskStatus.PENDING, 0, 0, "")
    return is_new and task.version == before.version + 1 and task.update_time == NOW


@pytest.mark.usefixtures("db", "frozen")
class TestVerbs:
    def test_run_now_makes_a_later_task_due(self) -> None:
        task = waiting(NOW + HOUR, biz_ext={"a": 1}, queue="mail", priority=3)
        assert RUN_NOW.to_seen(ALIAS, [seen(task)]) == {task.pk: TaskStatus.PENDING}
        after = present()
        assert (after.when, after.claim_at) == (NOW, NOW)
        assert (after.biz_ext, after.queue, after.priority) == ({"a": 1}, "mail", 3)
        assert is_fresh(after, task)

    def test_run_now_of_a_retry_keeps_its_time_and_one_attempt(self) -> None:
        """A first attempt would be too late for a handler with ``max_lateness``."""
        task = backing_off()
        assert RUN_NOW.to_seen(ALIAS, [seen(task)]) == {task.pk: TaskStatus.PENDING}
        after = present()
        assert (after.when, after.claim_at, after.attempts) == (NOW - HOUR, NOW, 1)
        after.attempts = 0
        assert is_fresh(after, task)

    def test_run_now_of_an_overdue_task_that_has_not_begun(self) -> None:
        task = waiting(NOW - HOUR)
        assert RUN_NOW.to_seen(ALIAS, [seen(task)]) == {task.pk: TaskStatus.PENDING}
        assert (present().when, present().claim_at) == (NOW, NOW)

    @pytest.mark.parametrize(
        ("when", "by", "expected"),
        [
            (NOW + HOUR, HOUR, NOW + 2 * HOUR),
            (NOW + 2 * HOUR, timedelta(microseconds=1), NOW + 2 * HOUR + timedelta(microseconds=1)),
            (NOW + HOUR + timedelta(microseconds=876544), HOUR, NOW + 2 * HOUR + timedelta(microseconds=876544)),
            (NOW - 5 * HOUR, HOUR, NOW + HOUR),
            (NOW, timedelta(days=400), NOW + timedelta(days=400)),
        ],
        ids=["later", "a microsecond", "whole second", "overdue", "far"],
    )
    def test_postpone(self, when: datetime, by: timedelta, expected: datetime) -> None:
        task = waiting(when)
        assert postponing(by).to_seen(ALIAS, [seen(task)])
        after = present()
        assert (after.when, after.claim_at) == (expected, expected)
        assert is_fresh(after, task)

    def test_postpone_counts_from_the_next_attempt(self) -> None:
        task = backing_off(3 * HOUR)
        postponing(HOUR).to_seen(ALIAS, [seen(task)])
        assert (present().when, present().claim_at) == (NOW + 4 * HOUR, NOW + 4 * HOUR)

    @pytest.mark.parametrize(("when", "claim_at"), [(NOW - HOUR, NOW), (NOW + HOUR, NOW + HOUR)])
    def test_retry_failed_respects_a_later_time(self, when: datetime, claim_at: datetime) -> None:
        task = given_up(when)
        assert RETRY.to_seen(ALIAS, [seen(task)]) == {task.pk: TaskStatus.FAILED}
        assert (present().when, present().claim_at) == (when, claim_at)
        assert is_fresh(present(), task)

    def test_of_many_only_those_that_are_as_seen(self) -> None:
        for num in ("same", "replaced", "gone", "running"):
            add(num, NOW + HOUR)
        tasks = {num: present(num) for num in ("same", "replaced", "gone", "running")}
        add("replaced", NOW + 2 * HOUR)  # it has now the version that our own write would have given it
        Task._base_manager.filter(biz_num="gone").delete()
        Task._base_manager.filter(biz_num="running").update(status=TaskStatus.RUNNING)
        changed = RUN_NOW.to_seen(ALIAS, [seen(task) for task in tasks.values()])
        assert changed == {tasks["same"].pk: TaskStatus.PENDING}
        assert present("same").claim_at == NOW
        assert present("replaced").claim_at == NOW + 2 * HOUR

    def test_nothing_seen(self) -> None:
        assert RUN_NOW.to_seen(ALIAS, []) == {}


@pytest.mark.usefixtures("db", "frozen")
class TestFence:
    @pytest.mark.parametrize(("name", "status"), BOTH)
    def test_state(self, name: str, status: TaskStatus) -> None:
        task = in_status(status)
        before = contents(task)
        changed = VERBS[name].to_seen(ALIAS, [seen(task)])
        assert changed == ({task.pk: status} if status in APPLIES_TO[name] else {})
        assert (contents(present()) == before) is (not changed)

    @pytest.mark.parametrize("name", VERBS)
    def test_another_version(self, name: str) -> None:
        task = in_status(APPLIES_TO[name][0])
        for version in (task.version - 1, task.version + 1):
            assert VERBS[name].to_seen(ALIAS, [(task.pk, version)]) == {}
        assert contents(present()) == contents(task)


@pytest.mark.usefixtures("db", "frozen")
class TestEdit:
    def test_when_of_a_pending_task(self) -> None:
        task = backing_off()
        assert Edit(when=NOW + HOUR).verb().to_seen(ALIAS, [seen(task)])
        assert (present().when, present().claim_at) == (NOW + HOUR, NOW + HOUR)
        assert is_fresh(present(), task)

    def test_when_of_a_paused_task(self) -> None:
        task = backing_off()
        api.pause_task(task.biz_code, task.biz_num)
        assert Edit(when=NOW + HOUR).verb().to_seen(ALIAS, [seen(present())])
        after = present()
        assert (after.status, after.attempts, after.rescues, after.last_error) == (TaskStatus.PAUSED, 0, 0, "")

    def test_past_when(self) -> None:
        assert Edit(when=NOW - HOUR).verb().to_seen(ALIAS, [seen(waiting())])
        assert (present().when, present().claim_at) == (NOW - HOUR, NOW)

    def test_when_of_a_failed_task_leaves_it_failed(self) -> None:
        task = given_up()
        assert Edit(when=NOW + HOUR).verb().to_seen(ALIAS, [seen(task)])
        after = present()
        assert (after.status, after.attempts, after.last_error) == (TaskStatus.FAILED, 1, "given up")
        assert (after.when, after.version) == (NOW + HOUR, task.version + 1)
        assert after.claim_at == task.claim_at, "when it failed"

    @pytest.mark.parametrize(
        ("changes", "column", "value"),
        [
            (Edit(biz_ext='{"é": [1, null]}'), "biz_ext", {"é": [1, None]}),
            (Edit(biz_ext=None), "biz_ext", None),
            (Edit(queue="mail"), "queue", "mail"),
            (Edit(priority=-7), "priority", -7),
        ],
    )
    def test_other_columns_leave_the_back_off_alone(self, changes: Edit, column: str, value: Any) -> None:
        backing_off()
        Task._base_manager.update(biz_ext="old")
        before = contents(present())
        assert changes.verb().to_seen(ALIAS, [seen(present())])
        changed = {column: value, "version": before["version"] + 1}
        assert contents(present()) == {**before, **changed}

    def test_everything_at_once(self) -> None:
        assert Edit(NOW + 9 * HOUR, "[1]", "mail", 4).verb().to_seen(ALIAS, [seen(waiting())])
        after = present()
        assert (after.when, after.biz_ext, after.queue, after.priority) == (NOW + 9 * HOUR, [1], "mail", 4)


LOCK_WAITS = {
    "postgres": "SELECT '', COUNT(*) FROM pg_locks WHERE NOT granted",
    "mariadb": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
    "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
    "sqlite": "SELECT '', 1",  # SQLite cannot tell
}


def is_waiting_for_a_lock(database: str) -> bool:
    """Whether another connection waits."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_WAITS[database])
        return int(cursor.fetchone()[1]) > 0


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("name", ["run now", "postpone", "edit"])
def test_a_task_that_is_being_claimed(live_db: str, name: str) -> None:
    """The claim commits while the person's write waits for the row: the write does nothing."""
    task = waiting(NOW)
    with transaction.atomic():
        run = claim_one()
        thread = start_thread(lambda: VERBS[name].to_seen(ALIAS, [seen(task)]))
        wait_until(lambda: is_waiting_for_a_lock(live_db))
    assert thread.result() == {}
    assert present().version == run.version
    assert (present().status, present().when) == (TaskStatus.RUNNING, NOW)

"""Misspelled queues: an executor that would serve nothing says so; a name that no task can have is refused."""

from typing import Any

import pytest
from django.core.management import call_command

from django_delayed_tasks.exceptions import InvalidSetting
from django_delayed_tasks.executor.announcing import unnamed
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.admin.rows import new_task
from tests.executor.parts import add, executing, handler_of, registered
from tests.store.meters import UNIT, reads
from tests.store.test_reads import refresh_statistics

pytestmark = pytest.mark.django_db(transaction=True)


def named() -> None:
    """Name a queue in each way."""
    handler_of(lambda task: None, queue="of a handler")
    add(queue="of a task")
    registered("peer", queues=("of a peer",))


NAMES = ["of a handler", "of a task", "of a peer"]


def test_a_queue_that_something_names_is_known() -> None:
    named()
    assert unnamed("default", [*NAMES, "mail*", "Of a task"]) == ["mail*", "Of a task"]


@pytest.mark.parametrize("status", TaskStatus)
def test_a_queue_with_a_task_of_any_status_is_known(status: TaskStatus) -> None:
    handler_of(lambda task: None, "limited", max_concurrent=1)
    add(queue="of a task")
    add("2", code="limited", queue="limited")
    Task._base_manager.filter(queue="of a task").update(status=status)
    assert unnamed("default", ["of a task", "limited", "mial"]) == ["mial"]


@pytest.mark.per_database
def test_a_queue_that_nothing_names_is_looked_for_in_few_rows(live_db: str) -> None:
    for status in TaskStatus:
        rows = (new_task(f"{status}-{number}", status=status) for number in range(2000))
        Task._base_manager.bulk_create(rows, batch_size=500)
    refresh_statistics(live_db)
    with reads() as meter:
        assert unnamed("default", ["mial"]) == ["mial"]
    assert meter.total <= 100 * UNIT.get(live_db, 1)


@pytest.mark.parametrize("option", ["queues", "exclude_queues"])
def test_an_executor_says_which_queues_it_looks_for_in_vain(option: str, caplog: pytest.LogCaptureFixture) -> None:
    named()
    chosen: dict[str, Any] = {option: ("of a peer", "mial")}
    with executing(**chosen):
        pass
    said = [record.getMessage() for record in caplog.records if "spelled" in record.getMessage()]
    assert said == ["no task, handler or other executor names the queue 'mial': is it spelled right?"]


def test_health_of_a_queue_that_nothing_names(capsys: pytest.CaptureFixture[str]) -> None:
    named()
    call_command("taskhealth", "--queue", "of a peer")
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit):
        call_command("taskhealth", "--queue", "mial")
    assert "names the queue 'mial': is it spelled right?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x" * 51, " mail", "mail\0"])
def test_a_name_that_no_queue_has_is_refused(name: str) -> None:
    for option in ("queues", "exclude_queues"):
        with pytest.raises(InvalidSetting, match=f"^{option}: queue="):
            from_settings(**{option: (name,)})

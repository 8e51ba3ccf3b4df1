"""Enqueuing a function again from the history."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_delayed_tasks.admin import reenqueue
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.stats.findings import MAX_OF_A_KIND
from tests.admin.pages import confirm, messages_of
from tests.admin.rows import list_of, page_of, run
from tests.executor.parts import drain
from tests.function_tasks import functions
from tests.function_tasks.framework import TaskResultStatus, default_task_backend

LIST = list_of("taskrun")
CODE = functions.give.module_path
backend: Any = default_task_backend
give: Any = functions.give

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def clean_functions() -> Iterator[None]:
    functions.calls.clear()
    with registry.preserved():
        yield


def ran(*args: Any, **using: Any) -> TaskRun:
    """Return the run of a function that was enqueued, and has ended."""
    given = give.using(**using) if using else give
    given.enqueue(*args)
    drain()
    functions.calls.clear()
    return TaskRun.objects.latest("id")


def press(client: Client, of: TaskRun) -> Any:
    return client.post(page_of(of), {"_enqueue_again": "1"})


def waiting() -> Any:
    return Task.objects.filter(biz_code=CODE)


def test_button(boss: Client) -> None:
    of = ran({"number": 7}, queue_name="mail", priority=5, run_after=timedelta(seconds=-5))
    page = boss.get(page_of(of)).content.decode()
    assert 'name="_enqueue_again" value="Enqueue again"' in page
    assert messages_of(press(boss, of)) == ["1 function was enqueued again."]
    row = waiting().get()
    assert (row.queue, row.priority, row.biz_ext["args"]) == ("mail", 5, [{"number": 7}])
    assert row.biz_num != of.biz_num
    drain()
    assert functions.calls == [{"number": 7}]


def test_action_enqueues_each_task_once(boss: Client) -> None:
    of, another = ran(1), ran(2)
    TaskRun.objects.create(**{field.attname: getattr(of, field.attname) for field in of._meta.fields[1:]})
    keys = list(TaskRun.objects.filter(biz_code=CODE).values_list("pk", flat=True))
    assert len(keys) == 3
    asked = boss.post(LIST, {"action": "enqueue_again", "_selected_action": keys})
    assert "Enqueue these functions again?" in asked.content.decode()
    assert not waiting().exists()
    answer = confirm(boss, LIST, asked)
    assert messages_of(answer) == ["2 functions were enqueued again."]
    assert {row.biz_ext["args"][0] for row in waiting()} == {1, 2}
    assert another.pk in keys


def test_a_business_identity_that_waits_is_left_alone(boss: Client) -> None:
    of = ran("old", biz_num="order-17", run_after=timedelta(seconds=-5))
    press(boss, of)
    assert waiting().get().biz_num == "order-17"
    give.using(biz_num="order-17").enqueue("new")
    [*_, message] = messages_of(press(boss, of))
    assert "was not enqueued again" in message
    assert "order-17" in message
    assert waiting().get().biz_ext["args"] == ["new"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda of: TaskRun.objects.filter(pk=of.pk).update(biz_ext=None), "only functions can be enqueued again"),
        (lambda of: change_data(of, queue_name="x" * 60), "queue_name="),
        (lambda of: TaskRun.objects.filter(pk=of.pk).update(biz_code="gone"), "is no task function here"),
    ],
)
def test_what_cannot_be(boss: Client, change: Callable[[TaskRun], object], why: str) -> None:
    of = ran("x")
    change(of)
    [message] = messages_of(press(boss, of))
    assert why in message
    assert not waiting().exists()


def test_reasons_are_said_once_each(boss: Client) -> None:
    """One message for all runs of handlers; of many different reasons only the first."""
    for i in range(4):
        run(f"A-{i}", task_id=i)
    boxes = {"action": "enqueue_again", "_selected_action": list(TaskRun.objects.values_list("pk", flat=True))}
    [message] = messages_of(confirm(boss, LIST, boss.post(LIST, boxes)))
    assert message.startswith("4 runs, such as “")
    assert message.endswith("”, were not enqueued again: only functions can be enqueued again")
    of = ran("x")
    copies = [TaskRun(**{field.attname: getattr(of, field.attname) for field in of._meta.fields[1:]}) for _ in range(9)]
    for i, copy in enumerate(copies):
        copy.task_id, copy.biz_code = -i, f"gone{i}"
    TaskRun.objects.bulk_create(copies)
    boxes["_selected_action"] = list(TaskRun.objects.filter(biz_code__startswith="gone").values_list("pk", flat=True))
    said = messages_of(confirm(boss, LIST, boss.post(LIST, boxes)))
    assert len(said) == MAX_OF_A_KIND + 1
    assert said[-1] == "4 more were not enqueued again, for other reasons."


def test_all_that_match_are_the_latest_and_that_is_said(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reenqueue, "MAX_RUNS", 1)
    ran("old")
    of = ran("new")
    boxes = {"action": "enqueue_again", "_selected_action": [of.pk], "select_across": "1", "index": "0"}
    asked = boss.post(LIST, boxes)
    assert "Each function of the latest 1 of these runs is called once more." in asked.content.decode()
    assert "Yes, enqueue the latest 1 again" in asked.content.decode()
    assert messages_of(confirm(boss, LIST, asked)) == [
        "1 function was enqueued again.",
        "Runs older than the latest 1 were left alone.",
    ]
    assert [row.biz_ext["args"] for row in waiting()] == [["new"]]


def change_data(of: TaskRun, **using: Any) -> None:
    TaskRun.objects.filter(pk=of.pk).update(biz_ext={**of.biz_ext, "using": using})


def test_runs_of_handlers_have_no_button(boss: Client) -> None:
    assert "_enqueue_again" not in boss.get(page_of(run("A-1"))).content.decode()


@pytest.mark.parametrize(("permissions", "may"), [(["view_taskrun"], False), (["view_taskrun", "add_task"], True)])
def test_only_users_who_may_add_tasks(permissions: list[str], may: bool) -> None:
    of = ran("x")
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    assert ("_enqueue_again" in client.get(page_of(of)).content.decode()) == may
    assert (press(client, of).status_code == 302) == may
    boxes = {"action": "enqueue_again", "_selected_action": [of.pk]}
    client.post(LIST, boxes)
    assert waiting().count() == 2 * may


class TestBackend:
    def test_returns_the_new_result(self) -> None:
        first = give.enqueue("x")
        drain()
        again = backend.enqueue_again(first.id)
        assert again.id != first.id
        drain()
        again.refresh()
        assert (again.status, again.return_value) == (TaskResultStatus.SUCCESSFUL, "x")

    def test_one_with_an_identity_that_waits_is_refused(self) -> None:
        first = give.using(biz_num="order-17", run_after=timedelta(hours=1)).enqueue("x")
        with pytest.raises(TaskExists):
            backend.enqueue_again(first.id)
        assert waiting().get().when is not None


def test_only_users_who_may_see_the_run() -> None:
    of = ran("x")
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="add_task"))
    client = Client()
    client.force_login(user)
    assert press(client, of).status_code == 403
    assert not waiting().exists()


def test_the_address_of_no_run(boss: Client) -> None:
    address = page_of(ran("x"))
    answer = boss.post(re.sub(r"\d+", "abc", address), {"_enqueue_again": "1"})
    assert (answer.status_code, answer.headers["Location"]) == (302, reverse("admin:index"))


def test_the_page_of_a_run_whose_data_has_no_valid_moment(boss: Client) -> None:
    of = ran("x")
    TaskRun.objects.filter(pk=of.pk).update(biz_ext={**of.biz_ext, "enqueued_at": "2030-01-32T00:00:00"})
    assert boss.get(page_of(of)).status_code == 200

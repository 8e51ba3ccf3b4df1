"""The executors in the admin."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import ExecutorStatus, TaskStatus
from tests.admin.pages import numbers_of, rows_of
from tests.admin.rows import HOUR, MINUTE, NOW, executor, list_of, new_task, page_of

LIST = list_of("executor")

pytestmark = pytest.mark.usefixtures("frozen")


def runs(owner: Executor, count: int) -> None:
    Task._base_manager.bulk_create(
        new_task(f"{owner.pk}-{i}", status=TaskStatus.RUNNING, executor=owner.pk) for i in range(count)
    )


def test_columns(boss: Client) -> None:
    runs(executor("web/1", queues=["mail", "shop"], version="1.2", host="web.example.org (14e47914-4026531836)"), 2)
    [row] = rows_of(boss.get(LIST))
    assert row == {
        "name": "web/1", "state": "running", "running_tasks": "2 of 8", "queues_": "mail, shop",
        "process": "web.example.org", "process.second": "PID 4711", "heartbeat": "3.00 s ago",
        "started_": "2031-05-17 10:30:00", "version_": "1.2",
    }  # fmt: skip


STATES: dict[str, dict[str, Any]] = {
    "running": {"status": ExecutorStatus.RUNNING},
    "running, of an older release": {},
    "stopping": {"status": ExecutorStatus.STOPPING},
    "lost": {"status": ExecutorStatus.RUNNING, "expires_at": NOW - MINUTE},
    "lost while stopping": {"status": ExecutorStatus.STOPPING, "expires_at": NOW - MINUTE},
    "crashed": {"status": ExecutorStatus.CRASHED, "alive": None},
    "stopped": {"status": ExecutorStatus.STOPPED, "alive": None},
    "ended, by an older release": {"status": ExecutorStatus.RUNNING, "alive": None, "expires_at": NOW + MINUTE},
    "ended, of an older release": {"alive": None},
}
"""Names of executors, which begin with their state, and what is in their rows."""


def test_state(boss: Client) -> None:
    for name, fields in STATES.items():
        executor(name, **fields)
    assert {row["name"]: row["state"] for row in rows_of(boss.get(LIST))} == {
        name: name.split()[0].strip(",") for name in STATES
    }


@pytest.mark.parametrize("state", ["running", "stopping", "lost", "crashed", "stopped", "ended"])
def test_filter(boss: Client, state: str) -> None:
    for name, fields in STATES.items():
        executor(name, **fields)
    found = {row["name"] for row in rows_of(boss.get(LIST, {"state": state}))}
    assert found == {name for name in STATES if name.startswith(state)}


@pytest.mark.parametrize(
    ("queues", "excluded", "shown"),
    [
        (None, None, "all"),
        (None, [], "all"),
        (None, ["slow", "zip"], "all but slow, zip"),
        (["mail"], ["slow"], "mail but slow"),
        (["mail"], [], "mail"),
    ],
)
def test_queues(boss: Client, queues: Any, excluded: Any, shown: str) -> None:
    owner = executor(queues=queues, exclude_queues=excluded)
    assert rows_of(boss.get(LIST))[0]["queues_"] == shown
    assert shown in boss.get(page_of(owner)).content.decode()


def test_live_ones_first_then_the_latest(boss: Client) -> None:
    for name, alive in (("a", None), ("b", True), ("c", None), ("d", True)):
        executor(name, alive=alive)
    assert [row["name"] for row in rows_of(boss.get(LIST))] == ["d", "b", "c", "a"]


def test_one_statement_counts_all_running_tasks(boss: Client) -> None:
    for i in range(10):
        runs(executor(f"web/{i}"), i)
    Task._base_manager.bulk_create(new_task(f"p{i}") for i in range(10))
    with CaptureQueriesContext(connection) as context:
        rows = rows_of(boss.get(LIST))
    more = "8 of 8, 9 claimed"  # one waits for a thread, or is on the event loop
    assert [row["running_tasks"] for row in rows] == [more, *(f"{i} of 8" for i in reversed(range(9)))]
    about_tasks = [query for query in context.captured_queries if "django_delayed_tasks_" in query["sql"]]
    assert len(about_tasks) == 3  # the page's keys, its rows, and the counts


def test_link_to_its_tasks(boss: Client) -> None:
    owner, other = executor("web/1"), executor("web/2")
    runs(owner, 2)
    runs(other, 1)
    html = boss.get(LIST).content.decode()
    address = f"{list_of('task')}?status__exact=1&amp;executor={owner.pk}"
    assert f'<a href="{address}">2 of 8</a>' in html
    assert sorted(numbers_of(boss.get(address.replace("&amp;", "&")))) == [f"{owner.pk}-0", f"{owner.pk}-1"]


def test_page(boss: Client) -> None:
    owner = executor(codes=["a", "b"], heartbeat_at=NOW - 30 * HOUR)
    runs(owner, 1)
    html = boss.get(page_of(owner)).content.decode()
    for text in ("a, b", "1 d 6 h ago", "running", "2031-05-17 11:31:00", ">1 of 8</a>"):
        assert text in html


def test_nothing_can_be_changed(boss: Client) -> None:
    owner = executor()
    assert boss.get(page_of(owner, "delete")).status_code == 403
    assert boss.post(page_of(owner), {"_save": "1"}).status_code == 403
    assert boss.get(f"{LIST}add/").status_code == 403

"""What the overview reads depends neither on how many tasks wait nor on how many runs have ended."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_delayed_tasks import stats
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.store.resources.slots import SLOTS
from django_delayed_tasks.store.sql.lanes import blocked_lane, open_lane
from tests.admin.conftest import Shop
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, new_task, task
from tests.admin.test_cost import FEW, MANY, Page, fill, fill_with_what_is_rare, grown_pages, measured, plans_by_index
from tests.stats.fills import ended

pytestmark = pytest.mark.per_database

PAGES: list[Page] = [
    ("overview", {}),
    ("overview", {"ahead": "month", "span": "week"}),
    ("overview", {"format": "json"}),
]


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("is_blocked", [False, True], ids=["of a code", "of keys"])
def test_cost_of_what_waits_for_a_limit(live_db: str, monkeypatch: pytest.MonkeyPatch, is_blocked: bool) -> None:
    """It is counted no further than a thousand."""
    monkeypatch.setattr(Shop, "max_concurrent", 1)
    running = task("runs", status=TaskStatus.RUNNING, executor=executor(codes=[CODE]).pk, lane=open_lane(CODE))
    fields = {"task_id": running.pk, "task_version": running.version}
    Resource.objects.create(pool=SLOTS + CODE, name="#1", busy_before=NOW - HOUR, version=1, **fields)

    def fill_limited(first: int, last: int) -> None:
        Task._base_manager.bulk_create(
            new_task(
                f"{i}", NOW - HOUR, claim_at=NOW - HOUR + timedelta(milliseconds=i),
                lane=blocked_lane(CODE, f"{i % 20}") if is_blocked else open_lane(CODE),
            )
            for i in range(first, last)
        )  # fmt: skip

    fill_limited(0, 1)
    of_one = f"{Task.objects.get(biz_num='0').pk}/change/"
    pages: list[Page] = [("overview", {}), ("overview/problems/", {}), ("pausedqueue", {}), (f"task/{of_one}", {})]
    assert not grown_pages(live_db, pages, lambda first, last: fill_limited(first or 1, last))
    assert [one.tasks for queue in stats.backlog().queues for one in queue.limited] == [COUNTED + 1]


@pytest.mark.usefixtures("frozen")
def test_cost_of_the_overview(live_db: str) -> None:
    client: Any = Client()
    client.force_login(User.objects.create_superuser("boss"))
    fill_with_what_is_rare()
    for number in range(20):
        ended(5, NOW - number * MINUTE)
    with plans_by_index(live_db):
        fill(0, FEW)
        few = measured(client, live_db, PAGES)
        fill(FEW, MANY)
        many = measured(client, live_db, PAGES)
    assert not {page: (few[page], many[page]) for page in few if many[page] > 1.2 * few[page] + 50}

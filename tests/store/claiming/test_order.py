"""Claims come in the order in which they are due, however the database found and returned them."""

from datetime import timedelta

import pytest
from django.db import connection

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.strategies import Strategy
from django_delayed_tasks.store.sql.dialects import CLAIM_INDEX
from tests.store import verbs
from tests.store.verbs import HOUR, NOW

pytestmark = pytest.mark.usefixtures("db", "frozen")

COUNT = 12
OTHER_PLANS = [
    "enable_indexscan = off, enable_bitmapscan = off",
    "enable_seqscan = off, enable_bitmapscan = off",
    "enable_seqscan = off, enable_indexscan = off",
]
"""Settings with which PostgreSQL changes the rows in the order of the table, of the ids, or of their pages."""
ONE_BY_ONE = (
    "enable_hashjoin = off, enable_mergejoin = off, enable_hashagg = off, enable_material = off, enable_sort = off"
)
"""Settings with which PostgreSQL would run the subquery of an IN again for each row that it compares."""


@pytest.fixture(params=OTHER_PLANS if connection.vendor == "postgresql" else [""])
def planned(request: pytest.FixtureRequest) -> None:
    """The planner finds the rows to change in another order than that in which they are due."""
    with connection.cursor() as cursor:
        for setting in filter(None, request.param.split(", ")):
            cursor.execute(f"SET LOCAL {setting}")


def test_it_is_the_order_of_the_claim_index() -> None:
    [index] = [index for index in Task._meta.indexes if index.name == "ddt_task_claim"]
    assert tuple(index.fields) == CLAIM_INDEX


def test_the_youngest_row_may_be_due_first(planned: None, strategy: Strategy) -> None:
    for number in range(COUNT):
        verbs.add(str(number))
    for number in range(COUNT):
        Task._base_manager.filter(biz_num=str(number)).update(claim_at=NOW - HOUR - timedelta(seconds=number))
    assert [int(run.biz_num) for run in verbs.claim(strategy)] == list(range(COUNT))[::-1]


def test_rows_of_one_moment_are_due_in_the_order_of_their_ids(planned: None, strategy: Strategy) -> None:
    for number in range(COUNT):
        verbs.add(str(number))
    verbs.settle(*(verbs.released(run) for run in verbs.claim(strategy) if int(run.biz_num) % 2))
    Task._base_manager.update(claim_at=NOW)
    ids = [run.id for run in verbs.claim(strategy)]
    assert ids == sorted(ids)


@pytest.mark.parametrize("settings", [*OTHER_PLANS, ONE_BY_ONE])
def test_no_plan_claims_more_than_the_limit(db: None, strategy: Strategy, settings: str) -> None:
    with connection.cursor() as cursor:
        for setting in settings.split(", ") if connection.vendor == "postgresql" else ():
            cursor.execute(f"SET LOCAL {setting}")
    for number in range(COUNT):
        verbs.add(str(number))
    assert len(verbs.claim(strategy, limit=3)) == 3
    assert Task.objects.filter(status=TaskStatus.PENDING).count() == COUNT - 3

"""A look at the unique index: what ``once=True`` costs does not depend on how much is remembered."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from django_delayed_tasks import Task, add_tasks, api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Success
from django_delayed_tasks.states import AddAction, NextState
from django_delayed_tasks.store.sql.tables import SUCCESS
from harness.database_pages import pages_of
from tests.recurring.machine import NOON, Machine
from tests.recurring.test_once_at_once import FILTERED, add
from tests.store.meters import UNIT, reads


@pytest.fixture(autouse=True)
def _noon() -> Iterator[None]:
    """Stop the clock."""
    with frozen_at(NOON):
        yield


@pytest.fixture
def memories(db: None, machine: Machine) -> Callable[[int], None]:
    def remember(size: int) -> None:
        """Make it remember ``size`` thousands, written by the server."""
        Success.objects.all().delete()
        Success.objects.bulk_create(
            Success(biz_code="recurring", biz_num=f"x-{n}", succeeded_at=NOON) for n in range(1000)
        )
        more = " UNION ALL ".join(f"SELECT 'x{n}' AS name" for n in range(1, size))
        with connection.cursor() as cursor:
            if more:
                cursor.execute(
                    f"INSERT INTO {SUCCESS} (biz_code, biz_num, succeeded_at)"
                    f" SELECT s.biz_code, REPLACE(s.biz_num, 'x', v.name), s.succeeded_at"
                    f" FROM {SUCCESS} s CROSS JOIN ({more}) v"
                )
            if connection.vendor != "mysql":  # there it would end the test's transaction
                cursor.execute(f"ANALYZE {SUCCESS}")
        assert Success.objects.count() == 1000 * size

    return remember


def test_of_filtering_remembering_and_forgetting(memories: Callable[[int], None], machine: Machine) -> None:
    costs: list[list[int]] = []
    pages = []
    for size in (1, 120):
        memories(size)
        costs.append([*filtering(), adding_and_settling(machine), forgetting()])
        pages.append(pages_of(lambda: add(num="x-77")))
    few, many = costs
    unit = UNIT.get(connection.vendor, 1)
    assert all(more <= less + 2 * unit for less, more in zip(few, many, strict=True)), (few, many)
    assert few[0] <= 3 * unit
    assert pages[1] <= pages[0] + 6, "its tree is a level or two higher"


def filtering() -> Iterator[int]:
    for num in ("x-77", "x-999"):
        with reads() as meter:
            assert add(num=num) is FILTERED
        yield meter.total
    tasks = [Task(biz_code="recurring", biz_num=f"x-{number}") for number in range(20)]
    with reads() as meter:
        assert add_tasks(tasks, once=True) == 0
    yield meter.total


def adding_and_settling(machine: Machine) -> int:
    with reads() as meter:
        assert add(num="new") is AddAction.CREATED
        assert machine.run_at(0) is NextState.GONE
    assert Success.objects.filter(biz_num="new").exists()
    return meter.total


def forgetting() -> int:
    with reads() as meter:
        assert api.forget("recurring", "x-5")
    return meter.total

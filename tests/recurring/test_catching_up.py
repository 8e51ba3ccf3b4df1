"""``misfire="catch_up"``: each run looks at a bounded number of missed times, whatever the row says."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import Task, add_task, pause_task, resume_task
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState, TaskStatus
from django_delayed_tasks.triggers import Cron, Interval, parse, parse_stored
from django_delayed_tasks.triggers.values import MAX_CAUGHT_UP
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db
HUGE = "Cron('* * * * * *', misfire='catch_up', limit=1000000)"
WEEK = 7 * 24 * 60
"""Minutes."""


class Looks:
    """How many times were looked at."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    """Counts them for each Cron."""
    seen, latest = Looks(), Cron._latest

    def counted(self: Cron, after: datetime, until: datetime) -> datetime | None:
        seen.count += 1
        return latest(self, after, until)

    monkeypatch.setattr(Cron, "_latest", counted)
    yield seen
    assert seen.count


def spoil() -> None:
    """Write into the row a trigger that only an earlier release accepted."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_delayed_tasks_task SET trigger_text = %s", [HUGE])


def test_a_row_with_a_huge_limit_runs_and_continues(machine: Machine, looks: Looks) -> None:
    machine.add(Cron("* * * * * *", misfire="catch_up"))
    spoil()
    assert machine.run_at(WEEK) == NextState.RECUR
    assert machine.seen == [(WEEK - (MAX_CAUGHT_UP - 1) / 60, None)]
    assert looks.count <= 3 * (MAX_CAUGHT_UP + 3)
    assert TaskRow.objects.get().status == TaskStatus.PENDING
    assert machine.run_at(WEEK) == NextState.RECUR
    assert machine.seen[1][0] == pytest.approx(WEEK - (MAX_CAUGHT_UP - 2) / 60)


def test_a_row_with_a_huge_limit_is_paused_and_resumed(machine: Machine, looks: Looks) -> None:
    machine.add(Cron("* * * * * *", misfire="catch_up"))
    spoil()
    with frozen_at(NOON + WEEK * MINUTE):
        assert pause_task("recurring", "1")
        assert resume_task("recurring", "1")
    assert machine.next == pytest.approx(WEEK + 1 / 60)
    assert looks.count <= MAX_CAUGHT_UP + 3


def test_more_is_refused_where_it_is_given(machine: Machine) -> None:
    with pytest.raises(InvalidTrigger, match="limit=1000000: expected at most 1000"):
        parse(HUGE)
    with pytest.raises(InvalidTrigger, match="limit=1001: expected at most 1000"):
        Interval(minutes=1, misfire="catch_up", limit=MAX_CAUGHT_UP + 1)
    task: Any = Task(biz_code="recurring", biz_num="1", trigger=HUGE)
    with pytest.raises(InvalidTrigger, match="limit=1000000"):
        add_task(task)
    assert not TaskRow.objects.exists()
    assert parse_stored(HUGE) == Cron("* * * * * *", misfire="catch_up", limit=MAX_CAUGHT_UP)

"""Nights in which clocks are changed, lived through by an executor with a held clock: polled, claimed, run, settled."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_delayed_tasks import Task, add_task
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.triggers import Cron, Interval, Trigger
from tests.executor.parts import Bench, handler_of
from tests.executor.runs import run_one
from tests.recurring.machine import HandClock

pytestmark = pytest.mark.django_db

BERLIN, NEW_YORK, LORD_HOWE, SHANGHAI = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai"
CLOCKS = {"early": "30 1 * * *", "nightly": "30 2 * * *", "hourly": "0 0-4 * * *", "always": "*/30 * * * *"}

# From 23:30 of the evening before to 04:15. What comes in the doubled or missing part of the night is shown in UTC.
NIGHTS = {
    (BERLIN, "2026-03-29"): {
        "early": "00:30",
        "nightly": "01:00",  # 02:30 does not exist: at 03:00
        "hourly": "23:00 00:00 01:00 02:00",
        "always": "22:30 23:00 23:30 00:00 00:30 01:00 01:30 02:00",
    },
    (BERLIN, "2026-10-25"): {
        "early": "23:30",
        "nightly": "00:30",  # 02:30 comes again an hour later
        "hourly": "22:00 23:00 00:00 02:00 03:00",
        "always": "21:30 22:00 22:30 23:00 23:30 00:00 00:30 01:00 01:30 02:00 02:30 03:00",
    },
    (NEW_YORK, "2026-03-08"): {
        "early": "06:30",
        "nightly": "07:00",
        "hourly": "05:00 06:00 07:00 08:00",
        "always": "04:30 05:00 05:30 06:00 06:30 07:00 07:30 08:00",
    },
    (NEW_YORK, "2026-11-01"): {
        "early": "05:30",
        "nightly": "07:30",  # the doubled hour is from 01:00 to 02:00
        "hourly": "04:00 05:00 07:00 08:00 09:00",
        "always": "03:30 04:00 04:30 05:00 05:30 06:00 06:30 07:00 07:30 08:00 08:30 09:00",
    },
    (LORD_HOWE, "2026-10-04"): {
        "early": "15:00",
        "nightly": "15:30",  # half an hour is missing: 02:30 is the first moment after it
        "hourly": "13:30 14:30 15:30 16:00 17:00",
        "always": "13:00 13:30 14:00 14:30 15:00 15:30 16:00 16:30 17:00",
    },
    (LORD_HOWE, "2026-04-05"): {
        "early": "14:30",
        "nightly": "16:00",  # half an hour comes twice, from 01:30 to 02:00
        "hourly": "13:00 14:00 15:30 16:30 17:30",
        "always": "12:30 13:00 13:30 14:00 14:30 15:00 15:30 16:00 16:30 17:00 17:30",
    },
    (SHANGHAI, "2026-03-29"): {
        "early": "17:30",
        "nightly": "18:30",
        "hourly": "16:00 17:00 18:00 19:00 20:00",
        "always": "15:30 16:00 16:30 17:00 17:30 18:00 18:30 19:00 19:30 20:00",
    },
}


class Night:
    """An executor whose time is the test's; it sleeps as long as the poller says."""

    def __init__(self, begin: datetime) -> None:
        self.now = begin
        self.clock = HandClock()
        self.fired: dict[str, list[datetime]] = {}
        handler = handler_of(self.fire, code="night")
        self.handler = handler
        with frozen_at(self.now):
            self.bench = Bench(lease=10**6, poll_interval=1800.0, heartbeat=10**5)

    def fire(self, task: Any) -> None:
        assert task.when == self.now, "on time"
        self.fired.setdefault(task.biz_num, []).append(task.when)

    def add(self, **triggers: Trigger) -> None:
        with frozen_at(self.now):
            for num, trigger in triggers.items():
                add_task(Task(biz_code="night", biz_num=num, trigger=trigger))

    def live_until(self, end: datetime) -> None:
        while self.now < end:
            with frozen_at(self.now):
                pause = self.bench.poller.poll()
                self.clock.moment = self.now
                tasks = self.bench.delivered[:]
                self.bench.delivered.clear()
                settle("default", [run_one(task, self.handler, self.clock) for task in tasks])  # type: ignore[misc]
                self.bench.finish(tasks)
            self.now += timedelta(seconds=pause)


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    with registry.preserved():
        yield


@pytest.mark.parametrize(("zone", "day"), NIGHTS, ids=lambda value: value)
def test_every_time_once_and_at_its_moment(zone: str, day: str) -> None:
    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    evening = midnight.astimezone(UTC) - timedelta(minutes=31)
    night = Night(evening)
    night.add(**{num: Cron(expression, tz=zone) for num, expression in CLOCKS.items()}, interval=Interval(hours=1))
    night.live_until(midnight.replace(hour=4, minute=15).astimezone(UTC))

    expected = NIGHTS[zone, day]
    assert {num: " ".join(f"{when:%H:%M}" for when in night.fired[num]) for num in CLOCKS} == expected
    hours = len(night.fired["interval"])
    assert night.fired["interval"] == [evening + (number + 1) * timedelta(hours=1) for number in range(hours)]
    assert TaskRow.objects.count() == len(CLOCKS) + 1
    assert all(row.when > night.now - timedelta(minutes=30) for row in TaskRow.objects.all())

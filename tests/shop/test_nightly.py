"""The nightly report, night by night."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from django_delayed_tasks import Task, get_runs, register_task_handler
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.testing import Journey, declare_recurring, run_due_tasks, run_until, travel
from testproject.shop import codes
from testproject.shop.models import Order, Product
from testproject.shop.nightly import NightlyReport

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 6, 1, 20, tzinfo=BERLIN)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def journey() -> Iterator[Journey]:
    """The clock, in the evening in which the report is declared."""
    with registry.preserved(), travel(to=EVENING) as journey:
        register_task_handler(NightlyReport)
        declare_recurring(NightlyReport)
        yield journey


def run_at(moment: datetime) -> Any:
    """Return what the run that is due at that moment reported; only the outcome if there was no report."""
    [run] = run_until(moment)
    return run.result or run.outcome


def pay(moment: datetime, total: int) -> None:
    product = Product.objects.create(name="Lamp", price=1)
    Order.objects.create(
        product=product, customer="Ada", email="ada@example.org", quantity=1, total=Decimal(total), placed_at=moment,
        pay_by=moment, paid_at=moment, state=Order.State.PAID,
    )  # fmt: skip


def planned() -> datetime:
    return Task.objects.get(biz_code=codes.NIGHTLY_REPORT).when


def test_at_three_by_the_clock_on_the_wall() -> None:
    assert planned() == datetime(2026, 6, 2, 1, tzinfo=UTC)
    shown = [moment.astimezone(BERLIN).hour for moment in NightlyReport.trigger.preview(366)]
    assert set(shown) == {3}


def test_each_begins_where_the_last_one_ended() -> None:
    night = planned()
    pay(night - 2 * HOUR, 10)
    pay(night - timedelta(seconds=5), 20)  # perhaps not committed yet when the report begins
    first = run_at(night)
    assert (first["since"], first["paid"], first["turnover"]) == (None, 1, "10.00")
    pay(night + HOUR, 30)
    second = run_at(night + DAY)
    assert (second["since"], second["paid"], second["turnover"]) == (first["until"], 2, "50.00")


def test_nights_that_were_missed_are_one_report(journey: Journey) -> None:
    night = planned()
    for number in range(4):
        pay(night + number * DAY - HOUR, 10)
    run_at(night)
    journey.move(to=night + 3 * DAY + 2 * HOUR)
    [run] = run_due_tasks()
    assert run.result["paid"] == 3
    assert planned() == night + 4 * DAY
    assert get_runs(codes.NIGHTLY_REPORT).count() == 2


def test_what_would_come_in_the_morning_is_part_of_the_next_one(journey: Journey) -> None:
    night = planned()
    pay(night - HOUR, 10)
    journey.move(to=night + 7 * HOUR)
    [run] = run_due_tasks()
    assert run.outcome is RunOutcome.EXPIRED
    assert planned() == night + DAY
    assert run_at(night + DAY)["paid"] == 1


def test_cancelled_orders_are_counted() -> None:
    night = planned()
    pay(night - HOUR, 10)
    Order.objects.update(paid_at=None, cancelled_at=night - HOUR, state=Order.State.CANCELLED)
    report = run_at(night)
    assert (report["paid"], report["turnover"], report["cancelled"]) == (0, "0.00", 1)


def test_it_is_among_the_shops_tasks(client: Client) -> None:
    run_at(planned())
    page = client.get(reverse("shop:tasks")).text
    waiting, runs = page.split("Last runs")
    assert codes.NIGHTLY_REPORT in waiting
    assert "turnover" in runs

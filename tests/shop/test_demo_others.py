"""The demonstration's checks of reports, imports and gateways fail when what they claim is not so."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_delayed_tasks import TaskRun
from django_delayed_tasks.models import Resource
from django_delayed_tasks.states import RunOutcome
from testproject.demo.book import Book, ExpectedOrder, Fate
from testproject.demo.gateways import gateway_problems, tokens
from testproject.demo.imports import LINES, import_problems, lines
from testproject.demo.nights import report_problems
from testproject.shop import codes
from testproject.shop.models import Order, Product
from testproject.shop.services import open_gateways, payments

SECOND = timedelta(seconds=1)
NIGHT = timedelta(seconds=5)

pytestmark = pytest.mark.django_db


@pytest.fixture
def opened_at() -> datetime:
    """Four nights ago; each had a report of one order."""
    opened_at = timezone.now() - 5 * NIGHT
    product = Product.objects.create(name="Lamp", price=1)
    for number in range(4):
        Order.objects.create(
            product=product, customer="Ada", email="ada@example.org", quantity=1, total=1, state=Order.State.PAID,
            placed_at=opened_at, pay_by=opened_at, paid_at=opened_at + number * NIGHT + SECOND,
        )  # fmt: skip
        report(opened_at, number)
    return opened_at


def report(opened_at: datetime, number: int, outcome: RunOutcome = RunOutcome.DONE, **changes: Any) -> None:
    since, until = opened_at + number * NIGHT, opened_at + (number + 1) * NIGHT
    result = {"since": since.isoformat() if number else None, "until": until.isoformat(), "paid": 1, **changes}
    TaskRun.objects.create(
        biz_code=codes.NIGHTLY_REPORT, biz_num="recurring", task_id=1, version=number, when=until, attempt=1,
        outcome=outcome, finished=until, result=result,
    )  # fmt: skip


def test_reports_that_are_right(opened_at: datetime) -> None:
    assert list(report_problems(opened_at)) == []


def test_a_night_without_report(opened_at: datetime) -> None:
    TaskRun.objects.filter(version=2).delete()
    assert len(list(report_problems(opened_at))) == 2  # a gap, and a payment that no task reports


def test_a_night_with_two_reports(opened_at: datetime) -> None:
    report(opened_at, 3)
    assert "one night had two reports" in list(report_problems(opened_at))


def test_a_payment_that_no_report_tells_of(opened_at: datetime) -> None:
    Order.objects.update(paid_at=opened_at + SECOND)
    TaskRun.objects.filter(version=3).update(result={**TaskRun.objects.get(version=3).result, "paid": 0})
    assert list(report_problems(opened_at)) == ["the reports tell of 3 payments, but there were 4"]


def test_too_few_or_failed_reports(opened_at: datetime) -> None:
    TaskRun.objects.filter(version__gte=2).delete()
    TaskRun.objects.filter(version=1).update(outcome=RunOutcome.FAILED)
    failed, few = report_problems(opened_at)
    assert "failed" in failed.lower()
    assert few == "there were 1 reports"


def stock(count: int) -> None:
    Product.objects.bulk_create(Product(name=name, price=1) for name in list(lines())[:count])


SAID = [f"{LINES} lines imported.\n", "Another import is running: host, process 1, last seen 12:00:00 UTC.\n"]


def test_imports_that_are_right() -> None:
    stock(LINES)
    assert list(import_problems(SAID)) == []


def test_two_imports_at_once() -> None:
    stock(LINES)
    stock(1)
    assert list(import_problems(SAID)) == [f"{LINES + 1} products instead of {LINES}"]


@pytest.mark.parametrize("said", [SAID[1:], [SAID[0], "killed"]])
def test_imports_that_did_nothing(said: list[str]) -> None:
    stock(LINES)
    assert len(list(import_problems(said))) == 1


def test_gateways() -> None:
    open_gateways()
    before = tokens()
    book = Book(orders={1: ExpectedOrder(fate=Fate.PAID)})
    assert list(gateway_problems(book, before)) == ["1 payments had 0 turns"]
    with payments.free_gateway() as gateway:
        [problem] = gateway_problems(book, before)
        assert problem.startswith(f"gateway {gateway.name} is still held by process")
    assert list(gateway_problems(book, before)) == []
    assert not Resource.objects.exclude(holder="").exists()

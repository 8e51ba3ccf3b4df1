"""Every check of the demonstration fails when what it claims is not so."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_delayed_tasks import TaskRun
from django_delayed_tasks.states import RunOutcome
from testproject.demo import checks
from testproject.demo.book import Book, ExpectedOrder, ExpectedPromotion, Fate
from testproject.demo.checks import BOUND, Check, Rows, reminders_due
from testproject.demo.report import percentile
from testproject.shop import codes
from testproject.shop.models import Order, Product, Promotion, Reminder
from tests.shop.helpers import start_promotion

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
Expectation = ExpectedPromotion | ExpectedOrder


def the_past() -> datetime:
    return timezone.now() - timedelta(minutes=5)


def a_promotion(product: Product, **changes: Any) -> Promotion:
    """Return a promotion that ended as it should."""
    end = the_past()
    fields = {"percent": 10, "started_at": end - SECOND, "ends_at": end, "ended_at": end + MS, **changes}
    promotion = Promotion.objects.create(product=product, **fields)
    ran(codes.END_PROMOTION, promotion.pk, RunOutcome.DONE)
    return promotion


def an_order(product: Product, *outcomes: RunOutcome, **changes: Any) -> Order:
    """Return an order that was open for 20 seconds, and cancelled when it should have been."""
    placed_at = the_past()
    pay_by = placed_at + timedelta(seconds=20)
    fields = {
        "customer": "Ada", "email": "ada@example.org", "quantity": 1, "total": 1, "state": Order.State.CANCELLED,
        "placed_at": placed_at, "pay_by": pay_by, "cancelled_at": pay_by + MS, **changes,
    }  # fmt: skip
    order = Order.objects.create(product=product, **fields)
    ran(codes.CANCEL_UNPAID_ORDER, order.pk, *outcomes)
    return order


def ran(code: str, number: int, *outcomes: RunOutcome) -> None:
    now = timezone.now()
    for attempt, outcome in enumerate(outcomes, start=1):
        identity = {"biz_code": code, "biz_num": str(number), "task_id": number, "version": attempt}
        TaskRun.objects.create(**identity, when=now, attempt=attempt, outcome=outcome, finished=now)


def remind(order: Order, *seconds: float) -> None:
    for number, after in enumerate(seconds, start=1):
        Reminder.objects.create(order=order, number=number, sent_at=order.placed_at + after * SECOND)


def problems(check: Check, row: Promotion | Order, expected: Expectation | None = None) -> list[str]:
    """Return what the check finds wrong, if the row was expected to be as described."""
    book = Book()
    if isinstance(row, Promotion):
        book.promotions[row.pk] = expected if isinstance(expected, ExpectedPromotion) else as_planned(row)
    else:
        book.orders[row.pk] = expected if isinstance(expected, ExpectedOrder) else ExpectedOrder()
    rows = Rows(book, list(Promotion.objects.all()), list(Order.objects.all()), SECOND)
    return list(check(rows))


def as_planned(row: Promotion) -> ExpectedPromotion:
    return ExpectedPromotion(row.ends_at, row.ends_at)


def test_what_is_right_passes(product: Product) -> None:
    promotion, order = a_promotion(product), an_order(product, RunOutcome.DONE)
    remind(order, 1.1, 2.2, 3.3)
    book = Book({promotion.pk: as_planned(promotion)}, {order.pk: ExpectedOrder()})
    rows = Rows(book, [promotion], [order], SECOND)

    found = [problem for check in checks.CHECKS if check != checks.everything_happened for problem in check(rows)]

    assert found == []


@pytest.mark.parametrize("shift", [-MS, BOUND + MS])
def test_a_promotion_that_ended_early_or_very_late(product: Product, shift: timedelta) -> None:
    end = the_past()
    row = a_promotion(product, ends_at=end, ended_at=end + shift)

    (problem,) = problems(checks.promotions_ended_at_their_last_time, row)

    assert f"promotion {row.pk} ended at" in problem


def test_a_promotion_that_did_not_end(product: Product) -> None:
    row = a_promotion(product, ended_at=None)

    assert problems(checks.promotions_ended_at_their_last_time, row) == [f"promotion {row.pk} has not ended"]


def test_a_promotion_whose_end_was_not_moved(product: Product) -> None:
    row = a_promotion(product)
    moved = row.ends_at + SECOND

    (problem,) = problems(checks.promotions_ended_at_their_last_time, row, ExpectedPromotion(moved, moved))

    assert "was to end at" in problem


def test_a_promotion_that_was_ended_twice(product: Product) -> None:
    row = a_promotion(product)
    ran(codes.END_PROMOTION, row.pk, RunOutcome.DONE)

    assert problems(checks.promotions_ended_by_one_run, row) == [f"promotion {row.pk} was ended by 2 runs"]


def test_a_promotion_that_was_ended_by_hand_and_by_its_task(product: Product) -> None:
    row = a_promotion(product)
    by_hand = ExpectedPromotion(row.ends_at, row.ends_at, by_hand=True)

    assert problems(checks.promotions_ended_by_one_run, row, by_hand) == [f"promotion {row.pk} was ended by 1 runs"]


@pytest.mark.parametrize("shift", [-MS, BOUND + MS])
def test_an_unpaid_order_that_was_cancelled_early_or_very_late(product: Product, shift: timedelta) -> None:
    row = an_order(product)
    row.cancelled_at = row.pay_by + shift
    row.save()

    assert len(problems(checks.unpaid_orders_are_cancelled, row)) == 1


@pytest.mark.parametrize("state", [Order.State.PAID, Order.State.AWAITING_PAYMENT])
def test_an_unpaid_order_that_was_not_cancelled(product: Product, state: str) -> None:
    row = an_order(product, state=state, cancelled_at=None)

    assert problems(checks.unpaid_orders_are_cancelled, row) == [f"order {row.pk} was not paid, but is {state}"]


def test_a_paid_order_that_was_touched(product: Product) -> None:
    row = an_order(product, paid_at=timezone.now())
    paid = ExpectedOrder(Fate.PAID)

    assert problems(checks.paid_orders_are_untouched, row, paid) == [f"order {row.pk} was paid, but is cancelled"]


def test_a_withdrawn_order_that_is_open(product: Product) -> None:
    row = an_order(product, state=Order.State.AWAITING_PAYMENT, cancelled_at=None)

    assert len(problems(checks.paid_orders_are_untouched, row, ExpectedOrder(Fate.WITHDRAWN))) == 1


@pytest.mark.parametrize(
    ("flaky", "outcomes"),
    [
        (True, [RunOutcome.DONE]),
        (True, [RunOutcome.RETRIED, RunOutcome.RETRIED]),
        (True, [RunOutcome.RETRIED] * 3 + [RunOutcome.DONE]),
        (False, [RunOutcome.RETRIED, RunOutcome.DONE]),
        (False, []),
    ],
)
def test_a_cancellation_with_the_wrong_runs(product: Product, flaky: bool, outcomes: list[RunOutcome]) -> None:
    row = an_order(product, *outcomes)

    assert len(problems(checks.flaky_orders_were_retried, row, ExpectedOrder(flaky=flaky))) == 1


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        ([1, 2], "2 reminders, expected 3 to 3"),
        ([1, 2, 3, 4], "4 reminders, expected 3 to 3"),
        ([0.9, 2, 3], "too soon"),
        ([1, 1.5, 3], "too soon"),
        ([1, 2, 21], "after it was closed"),
    ],
)
def test_reminders_that_are_wrong(product: Product, seconds: list[float], problem: str) -> None:
    row = an_order(product)
    remind(row, *seconds)

    found = problems(checks.reminders_were_sent, row)

    assert any(problem in text for text in found), found


def test_a_task_that_is_left(product: Product) -> None:
    row = start_promotion(product)

    assert problems(checks.nothing_is_left, row) == [f"{codes.END_PROMOTION} {row.pk} is still pending"]


@pytest.mark.parametrize("make", [a_promotion, an_order])
def test_a_row_that_no_story_asked_for(product: Product, make: Callable[[Product], Promotion | Order]) -> None:
    row, surplus = make(product), make(product)

    (problem,) = problems(checks.nothing_else_was_made, row)

    assert f" {surplus.pk} " in problem


def test_a_row_that_is_missing(product: Product) -> None:
    row = a_promotion(product)
    Promotion.objects.all().delete()

    assert len(problems(checks.nothing_else_was_made, row)) == 1


def test_a_kind_of_story_that_did_not_happen(db: None) -> None:
    book = Book(events=[event for events in checks.EVENTS for event in events if event != "shortened"])

    assert list(checks.everything_happened(Rows(book, [], [], SECOND))) == ["nothing was shortened"]


@pytest.mark.parametrize(("seconds", "due"), [(0, (0, 0)), (1, (0, 1)), (6, (1, 3)), (12, (2, 3)), (99, (3, 3))])
def test_how_many_reminders_are_due(seconds: int, due: tuple[int, int]) -> None:
    assert reminders_due(seconds * SECOND, SECOND) == due


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentiles_are_values_that_occurred(share: float, expected: int) -> None:
    values = [number * MS for number in range(100, 0, -1)]

    assert percentile(values, share) == expected * MS

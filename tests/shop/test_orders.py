"""Services and handlers of orders."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from django_delayed_tasks import Reschedule, Task
from testproject.shop import codes, services
from testproject.shop.errors import ShopError
from testproject.shop.models import MAX_REMINDERS, Order, Product
from testproject.shop.warehouse import WarehouseUnavailable
from tests.shop.helpers import HOUR, fresh, handle, place_order, scheduled, start_promotion
from tests.threads import start_thread

CLOSING: list[Callable[[int], Order]] = [services.pay_order, services.cancel_order]


def cancel_unpaid(order: Order) -> object:
    return handle(codes.CANCEL_UNPAID_ORDER, order.pk, order.pay_by)


def remind(order: Order, sent: int) -> object:
    return handle(codes.REMINDER, order.pk, timezone.now(), {"sent": sent})


def sent_numbers(order: Order) -> list[int]:
    return list(order.reminders.values_list("number", flat=True))


def test_an_order_schedules_its_cancellation_and_a_reminder(product: Product, reminder_every: timedelta) -> None:
    order = place_order(product)

    assert scheduled(order.pk) == {
        codes.CANCEL_UNPAID_ORDER: order.pay_by,
        codes.REMINDER: order.placed_at + reminder_every,
    }
    assert order.pay_by == order.placed_at + HOUR
    assert Task.objects.get(biz_code=codes.REMINDER).biz_ext == {"sent": 0}


def test_an_order_has_the_price_of_the_promotion(product: Product) -> None:
    start_promotion(product)

    assert str(place_order(product).total) == "60.00"


@pytest.mark.parametrize("close", CLOSING)
def test_closing_an_order_cancels_its_tasks(product: Product, close: Callable[[int], Order]) -> None:
    order = place_order(product)

    close(order.pk)

    assert fresh(order).closed_at is not None
    assert scheduled(order.pk) == {}


@pytest.mark.parametrize("again", CLOSING)
@pytest.mark.parametrize("close", CLOSING)
def test_an_order_is_closed_once(
    product: Product, close: Callable[[int], Order], again: Callable[[int], Order]
) -> None:
    order = close(place_order(product).pk)

    with pytest.raises(ShopError, match=rf"is {order.state} already"):
        again(order.pk)

    assert fresh(order).state == order.state
    assert fresh(order).closed_at == order.closed_at


def test_a_payment_that_is_rolled_back_leaves_the_tasks(product: Product) -> None:
    order = place_order(product)
    tasks = scheduled(order.pk)

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        services.pay_order(order.pk)
        raise ZeroDivisionError

    assert fresh(order).is_open
    assert scheduled(order.pk) == tasks


def test_the_handler_cancels_an_unpaid_order_once(product: Product) -> None:
    order = place_order(product)

    assert cancel_unpaid(order) is None
    cancelled_at = fresh(order).cancelled_at
    assert cancel_unpaid(order) is None

    assert fresh(order).state == Order.State.CANCELLED
    assert cancelled_at is not None
    assert fresh(order).cancelled_at == cancelled_at
    assert codes.REMINDER not in scheduled(order.pk)


def test_the_handler_leaves_a_paid_order(product: Product) -> None:
    order = services.pay_order(place_order(product, flaky=True).pk)

    assert cancel_unpaid(order) is None

    assert fresh(order).state == Order.State.PAID
    assert fresh(order).cancelled_at is None
    assert fresh(order).warehouse_failures == 0


def test_the_cancellation_of_a_flaky_order_succeeds_the_third_time(product: Product) -> None:
    order = place_order(product, flaky=True)

    for failures in (1, 2):
        with pytest.raises(WarehouseUnavailable):
            cancel_unpaid(order)
        assert fresh(order).is_open
        assert fresh(order).warehouse_failures == failures
    cancel_unpaid(order)

    assert fresh(order).state == Order.State.CANCELLED


@pytest.mark.usefixtures("live_db")
def test_a_handler_that_meets_a_payment_waits_for_it(product: Product) -> None:
    order = place_order(product)

    with transaction.atomic():
        services.pay_order(order.pk)
        run = start_thread(lambda: services.cancel_unpaid_order(order.pk))
        run.join(0.5)
        waited = run.is_alive()

    assert waited
    assert run.result() is False
    assert fresh(order).state == Order.State.PAID


def test_reminders_count_what_was_sent(product: Product, reminder_every: timedelta) -> None:
    order = place_order(product)

    outcomes = [remind(order, sent) for sent in range(MAX_REMINDERS)]

    again = [Reschedule(reminder_every, biz_ext={"sent": sent}) for sent in range(1, MAX_REMINDERS)]
    assert outcomes == [*again, None]
    assert sent_numbers(order) == [1, 2, 3]


def test_a_reminder_that_runs_twice_is_sent_once(product: Product) -> None:
    order = place_order(product)

    assert remind(order, 0) == remind(order, 0)

    assert sent_numbers(order) == [1]


@pytest.mark.parametrize("close", CLOSING)
def test_no_customer_is_reminded_of_a_closed_order(product: Product, close: Callable[[int], Order]) -> None:
    order = close(place_order(product).pk)

    assert remind(order, 0) is None

    assert sent_numbers(order) == []


@pytest.mark.parametrize("code", [codes.CANCEL_UNPAID_ORDER, codes.REMINDER])
def test_the_handlers_do_not_mind_an_order_that_is_gone(db: None, code: str) -> None:
    assert handle(code, 999, timezone.now(), {"sent": 0}) is None

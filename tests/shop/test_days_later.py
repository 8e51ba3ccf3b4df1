"""What the shop does later, at its time."""

from datetime import timedelta

from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.testing import assert_scheduled, crash_next, run_until, travel
from testproject.shop import codes, services
from testproject.shop.models import MAX_REMINDERS, Order, Product
from tests.shop.helpers import HOUR, fresh, place_order, scheduled, start_promotion

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def test_a_promotion_ends_after_three_days(product: Product) -> None:
    with travel() as journey:
        promotion = start_promotion(product, 3 * DAY)
        run_until(2 * DAY)
        assert fresh(promotion).is_running
        run_until(promotion.ends_at)
        assert fresh(promotion).ended_at == promotion.ends_at == journey.now
        assert fresh(product).present_price == product.price


def test_a_promotion_that_was_extended_ends_then(product: Product) -> None:
    with travel():
        promotion = start_promotion(product)
        later = services.move_promotion_end(promotion.pk, promotion.ends_at + DAY).ends_at
        assert not run_until(12 * HOUR)
        [run] = run_until(2 * DAY)
    assert run.outcome == RunOutcome.DONE
    assert fresh(promotion).ended_at == later


def test_a_promotion_ends_once_even_if_the_executor_dies(product: Product) -> None:
    with travel():
        promotion = start_promotion(product)
        with crash_next(codes.END_PROMOTION):
            runs = run_until(DAY)
    assert [run.outcome for run in runs] == [RunOutcome.LOST, RunOutcome.DONE]
    assert fresh(promotion).ended_at == promotion.ends_at


def test_an_unpaid_order_is_cancelled_when_it_should_have_been_paid(product: Product) -> None:
    with travel():
        order = place_order(product)
        runs = run_until(2 * HOUR).of(codes.CANCEL_UNPAID_ORDER)
    assert runs.outcomes == [(codes.CANCEL_UNPAID_ORDER, str(order.pk), RunOutcome.DONE)]
    assert fresh(order).cancelled_at == order.pay_by


def test_nothing_happens_to_a_paid_order(product: Product) -> None:
    with travel():
        order = services.pay_order(place_order(product).pk)
        assert run_until(DAY) == []
    assert fresh(order).state == Order.State.PAID


def test_the_goods_of_a_flaky_order_come_back_at_the_third_try(product: Product) -> None:
    with travel():
        order = place_order(product, flaky=True)
        [first, second, third] = run_until(2 * HOUR).of(codes.CANCEL_UNPAID_ORDER)

    assert (first.outcome, first.status) == (RunOutcome.RETRIED, TaskStatus.PENDING)
    assert "WarehouseUnavailable: no answer" in first.reason
    assert [run.started for run in (first, second, third)] == [order.pay_by + wait * SECOND for wait in (0, 1, 3)]
    assert fresh(order).cancelled_at == third.started
    assert scheduled(order.pk) == {}


def test_reminders_follow_one_another(product: Product, reminder_every: timedelta) -> None:
    with travel():
        order = place_order(product, DAY)
        run_until(reminder_every)
        assert_scheduled(codes.REMINDER, order.pk, when=reminder_every, biz_ext={"sent": 1})
        runs = run_until(DAY / 2)
    assert len(runs) == MAX_REMINDERS - 1
    sent = [reminder.sent_at for reminder in order.reminders.order_by("number")]
    assert sent == [order.placed_at + number * reminder_every for number in range(1, MAX_REMINDERS + 1)]

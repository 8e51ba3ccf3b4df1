"""Services and handler of promotions."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from django_delayed_tasks import Task
from testproject.shop import codes, services
from testproject.shop.errors import ShopError
from testproject.shop.models import Product, Promotion
from tests.shop.helpers import HOUR, fresh, handle, scheduled, start_promotion
from tests.threads import start_thread


def test_a_promotion_lowers_the_price_and_schedules_its_end(product: Product) -> None:
    promotion = start_promotion(product)

    assert str(fresh(product).present_price) == "30.00"
    assert scheduled(promotion.pk) == {codes.END_PROMOTION: promotion.ends_at}


def test_a_product_has_one_running_promotion(product: Product) -> None:
    start_promotion(product)

    with pytest.raises(ShopError, match="running already"):
        start_promotion(product)

    assert Promotion.objects.count() == Task.objects.count() == 1


def test_a_promotion_cannot_end_in_the_past(product: Product) -> None:
    with pytest.raises(ShopError, match="past"):
        start_promotion(product, timedelta(seconds=-1))

    assert not Promotion.objects.exists()
    assert not Task.objects.exists()


def test_row_and_task_come_and_go_together(product: Product) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        start_promotion(product)
        raise ZeroDivisionError

    assert not Promotion.objects.exists()
    assert not Task.objects.exists()


@pytest.mark.parametrize("lasts", [2 * HOUR, HOUR / 2], ids=["later", "earlier"])
def test_the_end_can_be_moved(product: Product, lasts: timedelta) -> None:
    promotion = start_promotion(product)
    ends_at = timezone.now() + lasts

    services.move_promotion_end(promotion.pk, ends_at)

    assert fresh(promotion).ends_at == ends_at
    assert scheduled(promotion.pk) == {codes.END_PROMOTION: ends_at}


def test_moving_makes_a_task_that_is_missing(product: Product) -> None:
    promotion = start_promotion(product)
    Task._base_manager.all().delete()

    services.move_promotion_end(promotion.pk, promotion.ends_at + HOUR)

    assert scheduled(promotion.pk) == {codes.END_PROMOTION: promotion.ends_at + HOUR}


def test_ending_by_hand_cancels_the_task(product: Product) -> None:
    promotion = start_promotion(product)

    services.end_promotion(promotion.pk)

    assert not fresh(promotion).is_running
    assert scheduled(promotion.pk) == {}


def test_what_has_ended_cannot_be_moved_or_ended(product: Product) -> None:
    promotion = start_promotion(product)
    ended = services.end_promotion(promotion.pk)

    with pytest.raises(ShopError, match="ended already"):
        services.move_promotion_end(promotion.pk, timezone.now() + HOUR)
    with pytest.raises(ShopError, match="ended already"):
        services.end_promotion(promotion.pk)

    assert fresh(promotion).ended_at == ended.ended_at
    assert scheduled(promotion.pk) == {}


def test_the_handler_ends_the_promotion_once(product: Product) -> None:
    promotion = start_promotion(product)

    assert handle(codes.END_PROMOTION, promotion.pk, promotion.ends_at) is None
    ended_at = fresh(promotion).ended_at
    assert handle(codes.END_PROMOTION, promotion.pk, promotion.ends_at) is None

    assert ended_at is not None
    assert fresh(promotion).ended_at == ended_at
    assert fresh(product).present_price == product.price


def test_the_handler_leaves_a_promotion_that_was_extended(product: Product) -> None:
    promotion = start_promotion(product)
    old_end = promotion.ends_at
    services.move_promotion_end(promotion.pk, old_end + HOUR)

    assert handle(codes.END_PROMOTION, promotion.pk, old_end) == old_end + HOUR

    assert fresh(promotion).is_running


def test_the_handler_does_not_mind_a_promotion_that_is_gone(db: None) -> None:
    assert handle(codes.END_PROMOTION, 999, timezone.now()) is None


@pytest.mark.usefixtures("live_db")
def test_a_handler_that_meets_an_extension_waits_for_it(product: Product) -> None:
    promotion = start_promotion(product)
    old_end = promotion.ends_at

    with transaction.atomic():
        services.move_promotion_end(promotion.pk, old_end + HOUR)
        run = start_thread(lambda: handle(codes.END_PROMOTION, promotion.pk, old_end))
        run.join(0.5)
        waited = run.is_alive()

    assert waited
    assert run.result() == old_end + HOUR
    assert fresh(promotion).is_running

"""Promotions: started, moved and ended by a person; ended by their task when the time has come."""

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from django_delayed_tasks import Task, add_task, cancel_task, reschedule_task
from testproject.shop.codes import END_PROMOTION
from testproject.shop.errors import ShopError
from testproject.shop.models import Product, Promotion


@transaction.atomic
def start_promotion(product_id: int, percent: int, ends_at: datetime) -> Promotion:
    """A product has one running promotion at most.

    Raises:
        ShopError: ``ends_at`` is past, or a promotion is running.
    """
    now = must_be_ahead(ends_at)
    product = Product.objects.select_for_update().get(pk=product_id)
    if product.promotion:
        raise ShopError(f"A promotion of {product} is running already.")
    promotion = Promotion.objects.create(product=product, percent=percent, started_at=now, ends_at=ends_at)
    add_task(Task(biz_code=END_PROMOTION, biz_num=str(promotion.pk), when=ends_at))
    return promotion


@transaction.atomic
def move_promotion_end(promotion_id: int, ends_at: datetime) -> Promotion:
    """The promotion ends at ``ends_at`` instead, later or earlier than planned.

    Raises:
        ShopError: ``ends_at`` is past, or the promotion has ended.
    """
    must_be_ahead(ends_at)
    promotion = running_promotion(promotion_id)
    promotion.ends_at = ends_at
    promotion.save(update_fields=["ends_at"])
    if not reschedule_task(END_PROMOTION, str(promotion.pk), ends_at):
        add_task(Task(biz_code=END_PROMOTION, biz_num=str(promotion.pk), when=ends_at))
    return promotion


@transaction.atomic
def end_promotion(promotion_id: int) -> Promotion:
    """Ends the promotion now; its task is not needed any more.

    Raises:
        ShopError: the promotion has ended.
    """
    promotion = running_promotion(promotion_id)
    promotion.ends_at = promotion.ended_at = timezone.now()
    promotion.save(update_fields=["ends_at", "ended_at"])
    cancel_task(END_PROMOTION, str(promotion.pk))
    return promotion


@transaction.atomic
def end_due_promotion(promotion_id: int, scheduled: datetime) -> datetime | None:
    """Ends the promotion for the task that was scheduled for that moment.

    Returns the later end when a person moved it after the task had begun; None otherwise.
    """
    promotion = Promotion.objects.select_for_update().filter(pk=promotion_id, ended_at=None).first()
    if promotion is None:
        return None
    if promotion.ends_at > scheduled:
        return promotion.ends_at
    promotion.ended_at = timezone.now()
    promotion.save(update_fields=["ended_at"])
    return None


def running_promotion(promotion_id: int) -> Promotion:
    """The promotion's row, locked."""
    promotion = Promotion.objects.select_for_update().get(pk=promotion_id)
    if not promotion.is_running:
        raise ShopError("This promotion has ended already.")
    return promotion


def must_be_ahead(moment: datetime) -> datetime:
    """The present moment, which is before the given one."""
    now = timezone.now()
    if moment <= now:
        raise ShopError("This moment is past.")
    return now

"""Orders: placed, paid and cancelled by a customer; reminded of and cancelled by their tasks."""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from django_delayed_tasks import Task, add_task, cancel_task
from testproject.shop.codes import CANCEL_UNPAID_ORDER, REMINDER
from testproject.shop.conf import reminder_every
from testproject.shop.errors import ShopError
from testproject.shop.models import Order, Product, Reminder


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRequest:
    """What a customer fills in."""

    customer: str
    email: str
    quantity: int
    pay_within: timedelta
    flaky: bool = False


@transaction.atomic
def place_order(product_id: int, request: OrderRequest) -> Order:
    """The order is cancelled unless it is paid in time, and the customer is reminded until then."""
    product = Product.objects.get(pk=product_id)
    now = timezone.now()
    order = Order.objects.create(
        product=product,
        customer=request.customer,
        email=request.email,
        quantity=request.quantity,
        total=product.present_price * request.quantity,
        placed_at=now,
        pay_by=now + request.pay_within,
        flaky=request.flaky,
    )
    number = str(order.pk)
    add_task(Task(biz_code=CANCEL_UNPAID_ORDER, biz_num=number, when=order.pay_by))
    add_task(Task(biz_code=REMINDER, biz_num=number, when=now + reminder_every(), biz_ext={"sent": 0}))
    return order


@transaction.atomic
def pay_order(order_id: int) -> Order:
    """Mark the order as paid; neither a reminder nor the cancellation is needed any more.

    Raises:
        ShopError: the order was paid or cancelled before.
    """
    order = open_order(order_id)
    order.state = Order.State.PAID
    order.paid_at = timezone.now()
    order.save(update_fields=["state", "paid_at"])
    cancel_task(CANCEL_UNPAID_ORDER, str(order.pk))
    cancel_task(REMINDER, str(order.pk))
    return order


@transaction.atomic
def cancel_order(order_id: int) -> Order:
    """The customer does not want the goods any more.

    Raises:
        ShopError: the order was paid or cancelled before.
    """
    order = open_order(order_id)
    cancel(order)
    cancel_task(CANCEL_UNPAID_ORDER, str(order.pk))
    cancel_task(REMINDER, str(order.pk))
    return order


@transaction.atomic
def cancel_unpaid_order(order_id: int) -> bool:
    """Cancels the order for its task; False when it was paid or cancelled before."""
    order = Order.objects.select_for_update().filter(pk=order_id, state=Order.State.AWAITING_PAYMENT).first()
    if order is None:
        return False
    cancel(order)
    cancel_task(REMINDER, str(order.pk))
    return True


@transaction.atomic
def remind_customer(order_id: int, number: int) -> bool:
    """Sends the reminder of that number, once; False when there is nothing to pay any more."""
    order = Order.objects.select_for_update().filter(pk=order_id, state=Order.State.AWAITING_PAYMENT).first()
    if order is None:
        return False
    Reminder.objects.get_or_create(order=order, number=number, defaults={"sent_at": timezone.now()})
    return True


def open_order(order_id: int) -> Order:
    """The order's row, locked."""
    order = Order.objects.select_for_update().get(pk=order_id)
    if not order.is_open:
        raise ShopError(f"This order is {order.get_state_display().lower()} already.")
    return order


def cancel(order: Order) -> None:
    order.state = Order.State.CANCELLED
    order.cancelled_at = timezone.now()
    order.save(update_fields=["state", "cancelled_at"])

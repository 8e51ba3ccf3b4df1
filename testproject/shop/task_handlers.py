"""What the shop does later. Each handler may run twice without harm: it looks at the state before it acts."""

from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks import Reschedule, TaskHandler
from testproject.shop import codes, services, warehouse
from testproject.shop.conf import reminder_every
from testproject.shop.models import MAX_REMINDERS, Order


class EndPromotion(TaskHandler):
    """The promotion ends, unless a person has moved its end while this task was starting."""

    biz_code = codes.END_PROMOTION

    def handle(self, task: Any) -> datetime | None:
        return services.end_due_promotion(int(task.biz_num), task.when)


class CancelUnpaidOrder(TaskHandler):
    """The goods go back to the warehouse, which may need several tries, and the order is cancelled."""

    biz_code = codes.CANCEL_UNPAID_ORDER

    def backoff(self, attempt: int) -> timedelta:
        return timedelta(seconds=attempt)

    def handle(self, task: Any) -> None:
        order = Order.objects.filter(pk=int(task.biz_num), state=Order.State.AWAITING_PAYMENT).first()
        if order is None:
            return
        warehouse.take_back(order)
        services.cancel_unpaid_order(order.pk)


class RemindCustomer(TaskHandler):
    """Reminds the customer again and again, up to a limit; ``biz_ext`` counts what was sent."""

    biz_code = codes.REMINDER
    priority = -10  # after the others when much is due at once

    def handle(self, task: Any) -> Reschedule | None:
        number = task.biz_ext["sent"] + 1
        reminded = services.remind_customer(int(task.biz_num), number)
        if not reminded or number == MAX_REMINDERS:
            return None
        return Reschedule(reminder_every(), biz_ext={"sent": number})

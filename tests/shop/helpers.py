"""What the tests of the shop share."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from django_delayed_tasks import Task, get_task_handlers
from django_delayed_tasks.testing import make_task
from testproject.shop import services
from testproject.shop.models import Order, Product, Promotion
from testproject.shop.services.orders import OrderRequest

HOUR = timedelta(hours=1)


def handle(code: str, number: int, when: datetime, biz_ext: Any = None) -> Any:
    """Run the handler of that code once."""
    return get_task_handlers()[code].handle(make_task(code, number, when=when, biz_ext=biz_ext))


def start_promotion(product: Product, lasts: timedelta = HOUR) -> Promotion:
    return services.start_promotion(product.pk, 25, timezone.now() + lasts)


def place_order(product: Product, pay_within: timedelta = HOUR, *, flaky: bool = False) -> Order:
    request = OrderRequest(customer="Ada", email="ada@example.org", quantity=2, pay_within=pay_within, flaky=flaky)
    return services.place_order(product.pk, request)


def scheduled(number: int) -> Mapping[str, datetime]:
    """The tasks of that number: when each is to happen, by code."""
    return dict(Task.objects.filter(biz_num=str(number)).values_list("biz_code", "when"))


def fresh(row: Any) -> Any:
    """The row as it is in the database now."""
    return type(row).objects.get(pk=row.pk)

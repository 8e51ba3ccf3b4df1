"""The warehouse, played by two lines: a foreign system that is sometimes out of reach."""

from django.db.models import F

from testproject.shop.models import Order

FAILURES_OF_A_FLAKY_ORDER = 2


class WarehouseUnavailable(Exception):
    """The warehouse did not answer; it may do so later."""


def take_back(order: Order) -> None:
    """The goods go back on the shelf. May be said again without harm.

    Raises:
        WarehouseUnavailable: the first two times for a flaky order.
    """
    if order.flaky and order.warehouse_failures < FAILURES_OF_A_FLAKY_ORDER:
        Order.objects.filter(pk=order.pk).update(warehouse_failures=F("warehouse_failures") + 1)
        raise WarehouseUnavailable(f"no answer about {order}, try {order.warehouse_failures + 1}")

"""What can be done in the shop.

A row and its tasks change in one transaction: either all do or none. Each change of a row locks it first, so
that a person and a handler that meet at the same moment see each other's work.
"""

from testproject.shop.services.orders import (
    cancel_order,
    cancel_unpaid_order,
    pay_order,
    place_order,
    remind_customer,
)
from testproject.shop.services.payments import open_gateways, pay_through_gateway
from testproject.shop.services.promotions import (
    end_due_promotion,
    end_promotion,
    move_promotion_end,
    start_promotion,
)
from testproject.shop.services.reports import sales
from testproject.shop.services.stock import import_stock

__all__ = [
    "cancel_order",
    "cancel_unpaid_order",
    "end_due_promotion",
    "end_promotion",
    "import_stock",
    "move_promotion_end",
    "open_gateways",
    "pay_order",
    "pay_through_gateway",
    "place_order",
    "remind_customer",
    "sales",
    "start_promotion",
]

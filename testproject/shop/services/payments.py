"""Payments: the shop has two accounts at its bank, and each takes one payment at a time."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django_delayed_tasks.leases import LeasedResource, Pool, ResourceUnavailable, UnknownPool
from testproject.shop.errors import ShopError
from testproject.shop.models import Order
from testproject.shop.services.orders import pay_order

logger = logging.getLogger(__name__)

GATEWAYS = Pool("shop.gateways", quarantine=600)
ACCOUNTS = {"north": {"account": "GB33-0001"}, "south": {"account": "GB33-0002"}}
PATIENCE = 10


def open_gateways() -> None:
    """The pool, as it is when the shop opens."""
    for name, account in ACCOUNTS.items():
        GATEWAYS.add(name, account)


@contextmanager
def free_gateway() -> Iterator[LeasedResource]:
    """A gateway that takes no other payment meanwhile, in the whole cluster.

    Raises:
        ShopError: all are busy for too long.
    """
    if not GATEWAYS.resources().exists():
        open_gateways()
    try:
        with GATEWAYS.lease(ttl=30, wait=PATIENCE) as gateway:
            yield gateway
    except (ResourceUnavailable, UnknownPool):
        raise ShopError("No payment gateway is free. Please try again.") from None


def pay_through_gateway(order_id: int) -> Order:
    """The customer pays by one of the gateways.

    Raises:
        ShopError: the order was paid or cancelled before, or no gateway is free.
    """
    with free_gateway() as gateway:
        order = pay_order(order_id)
        # A real gateway would be told the token, and refuse one that is smaller than the last it saw.
        logger.info("%s is paid to %s, token %d", order, gateway.payload["account"], gateway.token)
        return order

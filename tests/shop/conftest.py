"""The shop's own settings, and something to sell."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import override_settings

from testproject import settings as shop_settings
from testproject.shop.models import Product

NAMES = ("ROOT_URLCONF", "MIDDLEWARE", "TEMPLATES", "MESSAGE_STORAGE", "TIME_ZONE")


@pytest.fixture(autouse=True)
def _as_in_the_shop() -> Iterator[None]:
    with override_settings(**{name: getattr(shop_settings, name) for name in NAMES}):
        yield


@pytest.fixture
def reminder_every() -> Iterator[timedelta]:
    """The time between two reminders, which the test sets."""
    interval = timedelta(minutes=7)
    with override_settings(SHOP_REMINDER_EVERY=interval):
        yield interval


@pytest.fixture
def product(db: None) -> Product:
    return Product.objects.create(name="Lamp", price=Decimal("40.00"))

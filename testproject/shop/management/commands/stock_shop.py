"""``manage.py stock_shop``: puts products on the shelves."""

import random
from argparse import ArgumentParser
from decimal import Decimal
from itertools import cycle, islice, product
from typing import Any

from django.core.management.base import BaseCommand

from testproject.shop.models import Product
from testproject.shop.services import open_gateways

KINDS = ["table", "chair", "shelf", "lamp", "desk", "bench", "chest", "stool", "mirror", "clock", "vase"]
MATERIALS = ["Oak", "Beech", "Walnut", "Steel", "Glass", "Cork", "Bamboo", "Marble", "Copper", "Slate"]
SIZES = ["small", "large", "round"]


class Command(BaseCommand):
    help = "Adds products to the shop."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--products", type=int, default=24, help="how many (default: 24)")
        parser.add_argument("--seed", type=int, default=1, help="for the prices (default: 1)")

    def handle(self, *args: Any, products: int, seed: int, **options: Any) -> None:
        prices = random.Random(seed)
        names = (f"{material} {kind}, {size}" for size, material, kind in product(SIZES, MATERIALS, KINDS))
        rows = [
            Product(name=name, price=Decimal(prices.randrange(500, 50_000)) / 100)
            for name in islice(cycle(names), products)
        ]
        Product.objects.bulk_create(rows)
        open_gateways()
        self.stdout.write(f"{len(rows)} products added.")

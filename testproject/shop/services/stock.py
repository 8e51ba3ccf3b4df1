"""Stock: products and prices come from a file that the wholesaler sends."""

import csv
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from typing import Any

from django_delayed_tasks.leases import MutexLease, mutex
from testproject.shop.models import Product

BATCH = 100


def import_stock(label: str, lines: Iterable[str], on_standby: Any = None) -> int:
    """Import products by name and price; return how many lines were read.

    Only one import runs in the whole cluster. One that was killed is continued by the next import of the same file,
    from the line that it had saved last.

    Raises:
        ResourceUnavailable: another import is running.
    """
    with mutex("shop.stock-import", ttl=10, on_standby=on_standby) as lease:
        if lease.state.get("file") != label:
            lease.state = {"file": label, "line": 0}
        rows = csv.reader(islice(iter(lines), lease.state["line"], None), delimiter=";")
        count = 0
        while batch := list(islice(rows, BATCH)):
            count += import_batch(lease, batch)
        lease.state = {}
        return count


def import_batch(lease: MutexLease, rows: list[list[str]]) -> int:
    """Import a few lines, and save where a successor would continue."""
    lease.check()
    for name, price in rows:
        Product.objects.update_or_create(name=name, defaults={"price": Decimal(price)})
    lease.state["line"] += len(rows)
    lease.save_state()
    return len(rows)

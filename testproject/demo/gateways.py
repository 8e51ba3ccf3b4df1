"""The gateways that payments go through."""

from collections.abc import Iterator, Mapping

from testproject.demo.book import Book, Fate
from testproject.shop.services.payments import GATEWAYS


def tokens() -> dict[str, int]:
    """The present token of each gateway; it grows with every turn."""
    return dict(GATEWAYS.resources().values_list("name", "version"))


def gateway_problems(book: Book, before: Mapping[str, int]) -> Iterator[str]:
    """each payment had a gateway to itself, and every gateway came back"""
    turns = sum(token - before.get(name, token) for name, token in tokens().items())
    paid = sum(order.fate is Fate.PAID for order in book.orders.values())
    if turns < paid:
        yield f"{paid} payments had {turns} turns"
    for gateway in GATEWAYS.resources().exclude(holder=""):
        yield f"gateway {gateway.name} is still held by process {gateway.pid}"

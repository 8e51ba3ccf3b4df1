"""All that happens in the demonstration."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

from testproject.demo.book import Book
from testproject.demo.client import INVALID, REFUSED, Answer, ShopClient, Unexpected
from testproject.demo.driver import Story
from testproject.demo.order_stories import ORDER_STORIES
from testproject.demo.promotion_stories import PROMOTION_STORIES, ahead, exactly

T = TypeVar("T")

SPREAD = 18.0
"""Seconds over which the stories begin."""


def all_stories(book: Book, products: Sequence[int], orders: int, seed: int) -> list[Story]:
    """Return the stories: one promotion for every product but the last, which is for mistakes, and some orders."""
    chance = Random(seed)
    *usual, last = products
    stories = [
        story(book, Random(chance.random()), chance.uniform(0, SPREAD), product)
        for story, product in zip(shares(PROMOTION_STORIES), usual, strict=False)
    ]
    stories += [
        story(book, Random(chance.random()), chance.uniform(0, SPREAD), chance.choice(usual))
        for story, _ in zip(shares(ORDER_STORIES), range(orders), strict=False)
    ]
    return [*stories, mistakes(book, last)]


def shares(kinds: Sequence[tuple[T, int]]) -> Iterator[T]:
    """Yield every kind again and again, as often as its share says; all kinds appear among the first few."""
    while True:
        left = dict(kinds)
        while any(left.values()):
            for kind in left:
                if left[kind]:
                    left[kind] -= 1
                    yield kind


def mistakes(book: Book, product: int) -> Story:
    """Bad input and impossible wishes: each must be answered with an error, and nothing may be written."""
    client = yield 1
    start, order = f"/products/{product}/promotion/", f"/products/{product}/order/"
    person = {"customer": "Eve", "email": "eve@example.org", "quantity": 1, "amount": 5, "unit": "seconds"}
    sale = {"percent": 20, "unit": "days"}
    refuse(book, INVALID, client.post(start, **sale, ends_at="2001-01-01T00:00"))
    refuse(book, INVALID, client.post(start, **sale, ends_at="soon"))
    refuse(book, INVALID, client.post(start, **sale, ends_at=ahead(60).isoformat(), amount=1))
    refuse(book, INVALID, client.post(start, **{**sale, "percent": 100}, amount=1))
    refuse(book, INVALID, client.post(order, **{**person, "email": "nobody"}))
    refuse(book, INVALID, client.post(order, **{**person, "amount": "-1"}))
    refuse(book, INVALID, client.post(order, **{**person, "customer": "a\0b"}))
    yield from too_late(book, client, product)


def too_late(book: Book, client: ShopClient, product: int) -> Story:
    ends_at = ahead(3)
    promotion = client.start_promotion(product, ends_at)
    book.promotions[promotion] = exactly(ends_at)
    refuse(book, REFUSED, client.post(f"/products/{product}/promotion/", percent=5, amount=9, unit="days"))
    yield 10
    refuse(book, REFUSED, client.post(f"/promotions/{promotion}/move/", amount=9, unit="days"))
    refuse(book, REFUSED, client.post(f"/promotions/{promotion}/end/"))


def refuse(book: Book, status: int, answer: Answer) -> None:
    if answer.status != status:
        raise Unexpected(f"{answer.url}: status {answer.status} instead of {status}")
    book.events.append("bad input refused")

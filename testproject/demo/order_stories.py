"""What customers do with their orders."""

from collections.abc import Callable
from random import Random

from testproject.demo.book import Book, ExpectedOrder, Fate
from testproject.demo.driver import Story
from testproject.demo.promotion_stories import LONG, MOMENT, ahead

PATIENCE = 22
"""Seconds to pay: long enough for all reminders, however late each is within the bound that is checked."""


def forgotten(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start / 2
    book.orders[client.place_order(product, PATIENCE)] = ExpectedOrder()
    book.events.append("never paid")


def forgotten_soon(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    book.orders[client.place_order(product, chance.randint(2, 6))] = ExpectedOrder()
    book.events.append("never paid")


def paid(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    order = client.place_order(product, 6)
    book.orders[order] = ExpectedOrder()
    yield chance.uniform(0.1, 4.5)
    settle(book, order, Fate.PAID, client.pay(order), "paid")


def paid_at_the_last_moment(book: Book, chance: Random, start: float, product: int) -> Story:
    """The shop may accept it or say that it is too late; whichever it said must be true."""
    client = yield start
    pay_by = ahead(3)
    order = client.place_order(product, 3)
    book.orders[order] = ExpectedOrder()
    yield (pay_by - ahead(0)).total_seconds() + chance.uniform(-MOMENT, MOMENT)
    accepted = client.pay(order)
    settle(book, order, Fate.PAID, accepted, "paid at the last moment")
    if not accepted:
        book.events.append("paid too late")


def withdrawn(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    order = client.place_order(product, LONG)
    book.orders[order] = ExpectedOrder()
    yield chance.uniform(0.5, 3)
    settle(book, order, Fate.WITHDRAWN, client.cancel(order), "withdrawn")


def flaky(book: Book, chance: Random, start: float, product: int) -> Story:
    """An order that is never paid, and the warehouse fails twice before it takes the goods back."""
    client = yield start
    book.orders[client.place_order(product, chance.randint(2, 5), "flaky")] = ExpectedOrder(flaky=True)
    book.events.append("failed and retried")


def paid_between_two_attempts(book: Book, chance: Random, start: float, product: int) -> Story:
    """The cancellation has failed and would be tried again, but then the customer pays."""
    client = yield start
    order = client.place_order(product, 2, "flaky")
    book.orders[order] = ExpectedOrder(flaky=True)
    yield 2 + chance.uniform(0.3, 2.5)
    settle(book, order, Fate.PAID, client.pay(order), "paid after a failed attempt")


def settle(book: Book, order: int, fate: Fate, accepted: bool, event: str) -> None:
    if accepted:
        book.orders[order].fate = fate
        book.events.append(event)


ORDER_STORIES: list[tuple[Callable[[Book, Random, float, int], Story], int]] = [
    (forgotten, 4),
    (forgotten_soon, 4),
    (paid, 5),
    (paid_at_the_last_moment, 2),
    (withdrawn, 1),
    (flaky, 3),
    (paid_between_two_attempts, 1),
]
"""Each with its share of twenty."""

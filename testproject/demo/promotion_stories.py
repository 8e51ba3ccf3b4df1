"""What people do with promotions."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

from testproject.demo.book import Book, ExpectedPromotion
from testproject.demo.driver import Story

LONG = 120
"""Seconds: past the end of the demonstration, so that what is not shortened does not end in time."""
MOMENT = 0.05
"""Seconds before or after its end within which a contested promotion is moved."""


def ahead(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def exactly(moment: datetime, *, contested: bool = False) -> ExpectedPromotion:
    return ExpectedPromotion(moment, moment, contested=contested)


def left_alone(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    ends_at = ahead(chance.uniform(3, 12))
    book.promotions[client.start_promotion(product, ends_at)] = exactly(ends_at)
    book.events.append("left alone")


def given_as_duration(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    seconds = chance.randint(3, 12)
    earliest = ahead(seconds)
    promotion = client.start_promotion_for(product, seconds)
    book.promotions[promotion] = ExpectedPromotion(earliest, ahead(seconds))
    book.events.append("left alone")


def extended(book: Book, chance: Random, start: float, product: int) -> Story:
    """Once, twice or three times."""
    client = yield start
    ends_at = ahead(4)
    promotion = client.start_promotion(product, ends_at)
    book.promotions[promotion] = exactly(ends_at)
    for _ in range(chance.randint(1, 3)):
        yield chance.uniform(0.2, 1.5)
        ends_at = ahead(chance.uniform(4, 9))
        if client.move_promotion(promotion, ends_at):
            book.promotions[promotion] = exactly(ends_at)
            book.events.append("extended")


def shortened(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    promotion = client.start_promotion(product, ahead(LONG))
    yield chance.uniform(0.5, 2)
    ends_at = ahead(chance.uniform(1, 5))
    if client.move_promotion(promotion, ends_at):
        book.promotions[promotion] = exactly(ends_at)
        book.events.append("shortened")


def extended_at_the_last_moment(book: Book, chance: Random, start: float, product: int) -> Story:
    """The shop may accept it or say that it is too late; whichever it said must be true."""
    client = yield start
    ends_at = ahead(chance.uniform(2, 5))
    promotion = client.start_promotion(product, ends_at)
    yield (ends_at - ahead(0)).total_seconds() + chance.uniform(-MOMENT, MOMENT)
    later = ahead(chance.uniform(2, 5))
    accepted = client.move_promotion(promotion, later)
    book.promotions[promotion] = exactly(later if accepted else ends_at, contested=True)
    book.events.append("extended at the last moment" if accepted else "extended too late")


def ended_by_hand(book: Book, chance: Random, start: float, product: int) -> Story:
    client = yield start
    promotion = client.start_promotion(product, ahead(LONG))
    yield chance.uniform(1, 4)
    earliest = ahead(0)
    if client.end_promotion(promotion):
        book.promotions[promotion] = ExpectedPromotion(earliest, ahead(0), by_hand=True)
        book.events.append("ended by hand")


PROMOTION_STORIES: list[tuple[Callable[[Book, Random, float, int], Story], int]] = [
    (left_alone, 7),
    (given_as_duration, 3),
    (extended, 5),
    (shortened, 2),
    (extended_at_the_last_moment, 2),
    (ended_by_hand, 1),
]
"""Each with its share of twenty."""

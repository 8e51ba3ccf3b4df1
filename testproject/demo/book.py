"""What the customers were told, to be compared with the shop's rows afterwards."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto


class Fate(Enum):
    """What must become of an order."""

    UNPAID = auto()
    PAID = auto()
    WITHDRAWN = auto()


@dataclass(slots=True)
class ExpectedPromotion:
    """Its end was last set to a moment between the two, which are the same if the customer named the moment.

    Attributes:
        by_hand: a person ended it.
        contested: a person moved it when it was about to end.
    """

    earliest: datetime
    latest: datetime
    by_hand: bool = False
    contested: bool = False


@dataclass(slots=True)
class ExpectedOrder:
    fate: Fate = Fate.UNPAID
    flaky: bool = False


@dataclass(slots=True)
class Book:
    """Written by the threads of the driver, each its own keys; read when they are done."""

    promotions: dict[int, ExpectedPromotion] = field(default_factory=dict)
    orders: dict[int, ExpectedOrder] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def tally(self) -> Counter[str]:
        """Return how often each event happened."""
        return Counter(self.events)

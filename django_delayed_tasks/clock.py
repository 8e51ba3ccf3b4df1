"""Clocks: the only module that knows the time.

What is due, late or dead is decided by the *database's* clock, so that executors on hosts with wrong clocks agree
("Time" in docs/explanation/design.md). SQLite's own clock has only milliseconds, and its processes share one host, so
there the host's clock is used as the database's. :func:`frozen_at` stops every clock of this process, for tests.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

_frozen: datetime | None = None

# Not clock_timestamp(): PostgreSQL cannot use an expression that changes within a statement to bound an index scan.
_EXPRESSIONS = {"mysql": "UTC_TIMESTAMP(6)", "postgresql": "statement_timestamp()"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DRIFT = 0.0005
"""How much faster than another clock a clock runs at most while it is being corrected, in seconds per second."""


def host_now() -> datetime:
    """Return the time of the host's clock in UTC, or the frozen moment."""
    return _frozen or datetime.now(UTC)


monotonic = time.monotonic
"""Return seconds since some fixed point, to measure how long something took; never frozen."""


def sql_now(connection: "BaseDatabaseWrapper") -> str:
    """Return an SQL expression for the current time by this database's clock."""
    expression = _EXPRESSIONS.get(connection.vendor)
    return expression if expression and not _frozen else literal(connection, host_now())


def sql_latest(connection: "BaseDatabaseWrapper") -> str:
    """Return an expression for the current time that may advance within the statement, for use in its result only."""
    return "clock_timestamp()" if connection.vendor == "postgresql" and not _frozen else sql_now(connection)


def literal(connection: "BaseDatabaseWrapper", moment: datetime) -> str:
    """Return the moment as an SQL literal, in the form in which Django stores it."""
    if connection.vendor == "postgresql":
        return f"TIMESTAMPTZ '{moment.astimezone(UTC).isoformat()}'"
    text = str(moment.astimezone(UTC).replace(tzinfo=None))
    return f"TIMESTAMP'{text}'" if connection.vendor == "mysql" else f"'{text}'"


def as_micros(moment: datetime) -> int:
    """Return the exact number of microseconds since 1970."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class DatabaseClock:
    """The time of the database's clock, computed from its last reading and the host's monotonic clock."""

    def __init__(self) -> None:
        self._is_told = False
        self._ahead = host_now().timestamp() - monotonic()
        self._heard = monotonic()

    def set(self, moment: datetime, asked: float | None = None) -> None:
        """Note that the database's clock has just shown ``moment``, in answer to a query sent at ``asked``.

        ``asked`` is in monotonic seconds. The clock has advanced while the answer was under way, so an earlier answer
        that came faster is closer to the truth, unless the clock was set back in the meantime.
        """
        heard = monotonic()
        ahead = moment.timestamp() - heard
        if asked is not None and self._is_told:
            earlier = self._ahead - DRIFT * (heard - self._heard)
            if ahead < earlier <= ahead + (heard - asked):
                ahead = earlier
        self._ahead, self._heard, self._is_told = ahead, heard, True

    def now(self) -> datetime:
        """Return the time of the database's clock, or the frozen moment.

        It is late by less than a round trip, and never ahead of the database's clock.
        """
        return _frozen or datetime.fromtimestamp(self._ahead + monotonic(), UTC)


@contextmanager
def frozen_at(moment: datetime) -> Iterator[None]:
    """Make every clock of this process, including the database's, show ``moment`` (an aware datetime) in the block."""
    global _frozen
    before, _frozen = _frozen, moment.astimezone(UTC)
    try:
        yield
    finally:
        _frozen = before

"""The one place that knows the time.

What is due, late or dead is decided by the *database's* clock, so that executors on hosts with wrong clocks
agree (DESIGN §5, trap 4). SQLite has no clock of its own finer than a millisecond and lives on one host: there
the host's clock is the database's. :func:`frozen_at` holds every clock of this process still, for tests.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

_frozen: datetime | None = None

# Not clock_timestamp(): PostgreSQL cannot use what changes within a statement as a bound of an index.
_EXPRESSIONS = {"mysql": "UTC_TIMESTAMP(6)", "postgresql": "statement_timestamp()"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DRIFT = 0.0005
"""How much faster than another a clock goes at most while it is being corrected."""


def host_now() -> datetime:
    """The host's clock, in UTC (or the frozen moment)."""
    return _frozen or datetime.now(UTC)


def monotonic() -> float:
    """Seconds from some fixed point; for measuring how long something took. Never frozen."""
    return time.monotonic()


def sql_now(connection: "BaseDatabaseWrapper") -> str:
    """An SQL expression for the present moment by this database's clock."""
    expression = _EXPRESSIONS.get(connection.vendor)
    return expression if expression and not _frozen else literal(connection, host_now())


def sql_latest(connection: "BaseDatabaseWrapper") -> str:
    """As :func:`sql_now`, as late within its statement as the database can tell; for the statement's answer only."""
    return "clock_timestamp()" if connection.vendor == "postgresql" and not _frozen else sql_now(connection)


def literal(connection: "BaseDatabaseWrapper", moment: datetime) -> str:
    """The moment as an SQL literal, in the form in which Django stores it."""
    if connection.vendor == "postgresql":
        return f"TIMESTAMPTZ '{moment.astimezone(UTC).isoformat()}'"
    text = str(moment.astimezone(UTC).replace(tzinfo=None))
    return f"TIMESTAMP'{text}'" if connection.vendor == "mysql" else f"'{text}'"


def as_micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """The reverse of :func:`as_micros`."""
    return EPOCH + timedelta(microseconds=micros)


class DatabaseClock:
    """What the database's clock shows, told from its last reading and the host's monotonic clock."""

    def __init__(self) -> None:
        self._is_told = False
        self._ahead = host_now().timestamp() - monotonic()
        self._heard = monotonic()

    def set(self, moment: datetime, asked: float | None = None) -> None:
        """The database's clock has just shown ``moment``; asked for it was at ``asked`` (monotonic seconds).

        It has gone on since. If an earlier answer came quicker, what it said is nearer to the truth, unless the clock
        was set back meanwhile.
        """
        heard = monotonic()
        ahead = moment.timestamp() - heard
        if asked is not None and self._is_told:
            earlier = self._ahead - DRIFT * (heard - self._heard)
            if ahead < earlier <= ahead + (heard - asked):
                ahead = earlier
        self._ahead, self._heard, self._is_told = ahead, heard, True

    def now(self) -> datetime:
        """The moment that the database's clock shows now, or one less than a round trip before (or the frozen moment).

        Never one that it has still to show.
        """
        return _frozen or datetime.fromtimestamp(self._ahead + monotonic(), UTC)


@contextmanager
def frozen_at(moment: datetime) -> Iterator[None]:
    """Every clock of this process shows ``moment`` (aware), the database's included."""
    global _frozen
    before, _frozen = _frozen, moment.astimezone(UTC)
    try:
        yield
    finally:
        _frozen = before

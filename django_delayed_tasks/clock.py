"""Clocks: the only module that knows the time.

What is due, late or dead is decided by the *database's* clock, so that executors on hosts with wrong clocks agree
("Time" in docs/explanation/design.md). SQLite's own clock has only milliseconds, and its processes share one host, so
there the host's clock is used as the database's. Tests tell this package the time: see :func:`frozen_at` and
:func:`host_clock`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

_override: Callable[[], datetime] | None = None
"""The source of time that replaces all clocks, in tests; None otherwise."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SKEW = timedelta(seconds=2)
"""The time by which two clocks may differ; an answer of the database may take as long."""
DRIFT = 0.0005
"""The maximum rate at which a clock that is being corrected gains on another clock, in seconds per second."""


def host_now() -> datetime:
    """Return the time of the host's clock in UTC, or the time that a test tells."""
    return _override() if _override else datetime.now(UTC)


monotonic = time.monotonic
"""Return seconds since some fixed point, to measure how long something took; never frozen."""


def is_stopped() -> bool:
    """Return whether freezegun has stopped this process's clocks, of which it stops the monotonic one as well."""
    freezegun = sys.modules.get("freezegun.api")
    return bool(freezegun and freezegun.freeze_factories)


def is_told() -> bool:
    """Return whether a test tells the time, to databases too: their own clocks are not asked then."""
    return _override is not None


def as_micros(moment: datetime) -> int:
    """Return the exact number of microseconds since 1970."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class DatabaseClock:
    """The time of the database's clock, computed from its last reading and the host's monotonic clock."""

    def __init__(self) -> None:
        self._is_set = False
        self._ahead = host_now().timestamp() - monotonic()
        self._set_at = monotonic()

    def set(self, moment: datetime, asked: float | None = None) -> None:
        """Note that the database's clock has just shown ``moment``, in answer to a query sent at ``asked``.

        ``asked`` is in monotonic seconds. The clock has advanced while the answer was under way, so an earlier answer
        that came faster is closer to the truth, unless the clock was set back in the meantime.
        """
        heard = monotonic()
        ahead = moment.timestamp() - heard
        if asked is not None and self._is_set:
            earlier = self._ahead - DRIFT * (heard - self._set_at)
            if ahead < earlier <= ahead + (heard - asked):
                ahead = earlier
        self._ahead, self._set_at, self._is_set = ahead, heard, True

    def now(self) -> datetime:
        """Return the time of the database's clock, or the time that a test tells.

        It is late by less than a round trip, and never ahead of the database's clock.
        """
        return _override() if _override else datetime.fromtimestamp(self._ahead + monotonic(), UTC)


@contextmanager
def frozen_at(moment: datetime) -> Iterator[None]:
    """Let this package take ``moment`` (an aware datetime) for the present, on every database, within a ``with`` block.

    No other clock is changed: ``timezone.now()`` and ``datetime.now()`` are still right. ``testing.travel`` moves them,
    too.
    """
    present = moment.astimezone(UTC)
    with _overridden_by(lambda: present):
        yield


@contextmanager
def host_clock() -> Iterator[None]:
    """Let this package take the host's clock for the database's, on every database, within a ``with`` block.

    For tests that move the host's clock: no library moves the clock of a server.
    """
    with _overridden_by(lambda: datetime.now(UTC)):
        yield


@contextmanager
def _overridden_by(source: Callable[[], datetime]) -> Iterator[None]:
    global _override
    before, _override = _override, source
    try:
        yield
    finally:
        _override = before

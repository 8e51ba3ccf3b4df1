"""What ticks, and when. All on one grid, so that a test can tell which times there were."""

from datetime import UTC, datetime, timedelta

from django_delayed_tasks import Interval

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(milliseconds=250)


def every(**how: object) -> Interval:
    """Each time of the grid."""
    return Interval(seconds=PERIOD.total_seconds(), start=ORIGIN, **how)  # type: ignore[arg-type]


COMPLETE = {f"complete-{number}": every(misfire="catch_up", limit=1000) for number in range(4)}
"""The codes that may miss no time."""
LATEST = {f"latest-{number}": every() for number in range(4)}
"""The codes that may miss times, and run none twice."""
FEW = {"few": every(misfire="catch_up", limit=3)}
IN_TIME = {"in-time": every(misfire="catch_up", grace=0.5)}
TRIGGERS = COMPLETE | LATEST | FEW | IN_TIME


def grid(first: datetime, last: datetime) -> list[datetime]:
    """The times from the first that is not before ``first`` to the last that is not after ``last``."""
    begin = -((ORIGIN - first) // PERIOD)
    end = (last - ORIGIN) // PERIOD
    return [ORIGIN + number * PERIOD for number in range(begin, end + 1)]

"""How long to wait before the next attempt."""

import random
from datetime import timedelta

MICROSECOND = timedelta(microseconds=1)
HIGHEST_DOUBLING = 67  # a microsecond doubled as often is above every timedelta


def exponential(
    attempt: int,
    base: timedelta = timedelta(seconds=1),
    cap: timedelta = timedelta(hours=1),
    jitter: float = 0.5,
) -> timedelta:
    """The wait after attempt number ``attempt`` (from 1): ``base`` doubled each time, never above ``cap``.

    ``jitter`` is the share of the wait that is random: 0 none, 0.5 "equal jitter", 1 "full jitter" in the
    words of Marc Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). It keeps tasks that failed
    together from coming back together; the default keeps half of the wait certain, so that whatever failed
    has time to recover.

    Raises:
        ValueError: ``base`` is not above zero, ``cap`` is below ``base``, or ``jitter`` is outside 0..1.
    """
    if not timedelta(0) < base <= cap:
        raise ValueError(f"expected 0 < base <= cap, not base={base!r}, cap={cap!r}")
    if not 0 <= jitter <= 1:
        raise ValueError(f"expected a jitter from 0 to 1, not {jitter!r}")
    doublings = min(max(attempt, 1) - 1, HIGHEST_DOUBLING)
    longest = min(cap // MICROSECOND, (base // MICROSECOND) << doublings)
    return longest * MICROSECOND - int(longest * jitter * random.random()) * MICROSECOND

"""The default back-off: how long a retry waits, unless its handler says otherwise."""

import random
from datetime import timedelta

MICROSECOND = timedelta(microseconds=1)
HIGHEST_DOUBLING = 67  # a microsecond doubled this often exceeds every timedelta


def exponential(
    attempt: int,
    base: timedelta = timedelta(seconds=1),
    cap: timedelta = timedelta(hours=1),
    jitter: float = 0.5,
) -> timedelta:
    """Return the wait after attempt number ``attempt`` (from 1): ``base`` doubled each time, at most ``cap``.

    ``jitter`` is the part of the wait that is random: 0 is none, 0.5 is "equal jitter" and 1 "full jitter" in the
    terms of Marc Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). It keeps tasks that failed
    together from coming back together. The default leaves half of the wait fixed, so that the service that
    failed has time to recover.

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

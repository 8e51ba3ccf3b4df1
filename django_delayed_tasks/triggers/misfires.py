"""The time that a recurring task runs for next, also if some times have been missed.

A task has one row and one time, ``when``. A run that starts late asks :func:`run_to_start` which time it stands for;
after its end, :func:`next_run` returns the next one.
"""

from datetime import datetime, timedelta

from django_delayed_tasks.triggers.base import Misfire, Trigger
from django_delayed_tasks.triggers.interval import Every, Interval

GRACE_OF_SKIP = timedelta(minutes=1)
"""The grace period of "skip": an executor that is busy for a moment must not cost a nightly run."""


def run_to_start(trigger: Trigger, when: datetime, now: datetime) -> datetime | None:
    """Return the time that a run starting ``now`` stands for, if ``when`` was planned; None if it is too late.

    Any times between the two are missed.
    """
    found = time_of(trigger, when, now)
    return found if _is_in_grace(trigger, found, now) else None


def time_of(trigger: Trigger, when: datetime, now: datetime) -> datetime:
    """Return the same as :func:`run_to_start`, but without the limit on lateness."""
    if when > now or _counts_from_finish(trigger):
        return when
    if trigger.misfire == Misfire.CATCH_UP:
        return _last_of_limit(trigger, _first_in_grace(trigger, when, now), now)
    return trigger.latest_in(when, now) or when


def next_time(trigger: Trigger, when: datetime, now: datetime) -> datetime | None:
    """Return the first time later than ``now`` in the series that ``when`` belongs to."""
    if _counts_from_finish(trigger):
        return trigger.next_after(now)
    return trigger.next_after(trigger.latest_in(when, now) or when)


def next_run(trigger: Trigger, when: datetime, started: datetime, now: datetime) -> datetime | None:
    """Return the time after a run for ``when`` that began at ``started`` and has ended ``now``; None if there is none.

    That run stood for the times that were due by its start; times that became due during the run were missed.
    """
    if _counts_from_finish(trigger):
        return trigger.next_after(now)
    if trigger.misfire == Misfire.CATCH_UP:
        planned = trigger.next_after(when)
        return planned if planned is None else run_to_start(trigger, planned, now) or next_time(trigger, planned, now)
    covered = trigger.latest_in(when, started) or when
    missed = trigger.latest_in(covered, now)
    if missed is not None and _is_in_grace(trigger, missed, now):
        return missed
    return trigger.next_after(missed or max(covered, when))


def _counts_from_finish(trigger: Trigger) -> bool:
    return isinstance(trigger, Interval) and trigger.every == Every.FINISH


def _first_in_grace(trigger: Trigger, when: datetime, now: datetime) -> datetime:
    """Return ``when``, or the first time that is not too late yet if there is one."""
    grace = _grace_of(trigger)
    if grace is None or now - when <= grace:
        return when
    too_late = trigger.latest_in(when, now - grace - timedelta(microseconds=1)) or when
    following = trigger.next_after(too_late)
    return following if following and following <= now else when


def _last_of_limit(trigger: Trigger, when: datetime, now: datetime) -> datetime:
    """Return the oldest of the last ``limit`` times up to ``now``; ``when`` if fewer have passed."""
    oldest = None
    until = now
    for _ in range(trigger.limit):
        found = trigger.latest_in(when, until)
        if found is None:
            return when
        oldest, until = found, found - timedelta(microseconds=1)
    return oldest or when


def _is_in_grace(trigger: Trigger, when: datetime, now: datetime) -> bool:
    grace = _grace_of(trigger)
    return grace is None or now - when <= grace


def _grace_of(trigger: Trigger) -> timedelta | None:
    """Return how late a run may start, None without limit; jitter does not count as lateness."""
    grace = trigger.grace_period
    if grace is None and trigger.misfire == Misfire.SKIP:
        grace = GRACE_OF_SKIP
    return None if grace is None else grace + trigger.longest_jitter

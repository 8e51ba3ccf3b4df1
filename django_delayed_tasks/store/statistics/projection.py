"""The future times of recurring tasks, from their triggers: each has one row, which shows only its next time."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.store.statistics.survey import BY_HOUR, BY_MINUTE, Recurring, minute_of
from django_delayed_tasks.triggers import Trigger, parse_stored

MOST_TRIGGERS: Final = 400
"""The most triggers that are projected, those of the most tasks."""
FEWEST_STEPS: Final = 50
_HOUR: Final = 60


def project(recurring: Collection[Recurring], now: datetime, steps: int = 20_000) -> dict[str, Counter[int]]:
    """Return when the recurring tasks of each code are due, by minutes since 1970.

    About ``steps`` times are computed, the same number for each trigger. A trigger with more times than that before the
    end of the forecast is continued at its rate so far.
    """
    due: dict[str, Counter[int]] = defaultdict(Counter)
    chosen = sorted(recurring, key=lambda one: -one.tasks)[:MOST_TRIGGERS]
    each = max(FEWEST_STEPS, steps // max(1, len(chosen)))
    for one in chosen:
        with suppress(InvalidTrigger, OverflowError):
            if one.first > now:
                due[one.biz_code][minute_of(one.first)] += one.tasks
            for minute, count in _times(parse_stored(one.trigger_text), max(one.first, now), now, each):
                due[one.biz_code][minute] += round(count * one.tasks)
    return due


def _times(trigger: Trigger, after: datetime, now: datetime, most: int) -> Iterator[tuple[int, float]]:
    """Yield minutes, or hours further ahead, and how many times of the trigger lie in each."""
    end = now + BY_HOUR
    fine = minute_of(now + BY_MINUTE)
    moment = after
    count = 0
    for moment in islice(trigger.times(after), most):
        if moment > end:
            return
        count += 1
        minute = minute_of(moment)
        yield (minute if minute < fine else minute - minute % _HOUR), 1
    if count == most:
        yield from _continued(
            minute_of(moment) + 1, count / max((moment - after) / timedelta(minutes=1), 1), fine, minute_of(end)
        )


def _continued(minute: int, rate: float, fine: int, end: int) -> Iterator[tuple[int, float]]:
    """Yield the minutes up to ``fine`` and the hours up to ``end``, at a rate per minute."""
    carried = 0.0
    while minute < end:
        step = 1 if minute < fine else _HOUR
        carried += rate * step
        if carried >= 1:
            yield (minute if step == 1 else minute - minute % _HOUR), int(carried)
            carried -= int(carried)
        minute += step

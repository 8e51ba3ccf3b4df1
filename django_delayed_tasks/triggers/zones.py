"""The time of a trigger without a time zone of its own after the project's ``TIME_ZONE`` has changed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django_delayed_tasks.triggers.base import Trigger
from django_delayed_tasks.triggers.cron import Cron


def rezoned(trigger: Trigger, when: datetime, before: str, now: datetime) -> datetime:
    """Return the time in the present ``TIME_ZONE`` for ``when``, a time of the trigger in the zone ``before``.

    It is the same local time, which may have passed, so that none is left out and none comes twice. An expression that
    follows elapsed time has its next time after ``now``. A time that is not one of the trigger in the former zone is a
    caller's and remains; so does one that suits both zones.
    """
    if not isinstance(trigger, Cron) or trigger.tz is not None:
        return when
    former = replace(trigger, tz=before)
    if _is_time(trigger, when) or not _is_time(former, when):
        return when
    if trigger.is_on_the_wall:
        same = trigger.once(when.astimezone(former.zone).replace(tzinfo=None, fold=0)).astimezone(UTC)
        if _is_time(trigger, same):
            return same
    return trigger.next_after(now) or when


def _is_time(trigger: Trigger, moment: datetime) -> bool:
    return trigger.latest_in(moment - timedelta(microseconds=1), moment) == moment

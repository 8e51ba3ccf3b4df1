"""Cron expressions of the library croniter, which has seconds in the last field, and reads days in its own way."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils.translation import gettext as _

from django_delayed_tasks import Cron
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.importers.moving import NotMoved

COMPARED = 400
"""The times for which a trigger is compared with another library's: of one that runs daily, those of a year."""
STEP = timedelta(days=2, hours=1, minutes=1, seconds=7)
"""The time between the moments whose next times are compared: it passes through all days, hours and minutes."""


def trigger_of(expression: str, zone: str, since: datetime) -> tuple[Cron, list[str]]:
    """Return the trigger with the times of an expression, and what is different at changes of daylight saving time.

    Raises:
        NotMoved: there is none, or croniter is not installed.
        ValueError: croniter refuses the expression.
    """
    try:
        croniter = import_module("croniter").croniter
    except ImportError:
        raise NotMoved(_("django-q2 does not run it: croniter is not installed")) from None
    for candidate in _candidates(expression, *croniter.expand(expression)):
        with suppress(InvalidTrigger):
            if not _differences(croniter, expression, Cron(candidate, tz="UTC"), since.astimezone(UTC)):
                trigger = Cron(candidate, tz=None if zone == settings.TIME_ZONE else zone)
                return trigger, _differences(croniter, expression, trigger, since.astimezone(ZoneInfo(zone)))
    raise NotMoved(_("no trigger has the times of %s") % expression)


def _candidates(expression: str, fields: list[list[Any]], days: dict[int, Any]) -> Iterator[str]:
    """Yield the expression with the seconds in front; then one with numbers only. A year is left out."""
    words = expression.split()
    yield " ".join([*words[5:6], *words[:5]])
    texts = [_text(field) for field in fields]
    if days:
        texts[4] = ",".join(f"{day}L" if n == "l" else f"{day}#{n}" for day, which in days.items() for n in which)
    yield " ".join([*texts[5:6], *texts[:5]])


def _text(values: list[Any]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]}-{values[-1]}"
    return ",".join(str(value).upper() for value in values)


def _differences(croniter: Any, expression: str, trigger: Cron, since: datetime) -> list[str]:
    """Return the first difference, in words."""
    for moment in (since + number * STEP for number in range(COMPARED)):
        theirs = croniter(expression, moment).get_next(datetime)
        ours = trigger.next_after(moment)
        if ours != theirs:
            here = ours and ours.astimezone(since.tzinfo)
            return [
                _("at changes of daylight saving time: %(here)s, before %(there)s") % {"here": here, "there": theirs}
            ]
    return []

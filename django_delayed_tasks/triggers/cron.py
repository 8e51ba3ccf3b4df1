"""Cron expressions, parsed by the library cronsim; how they behave across DST changes is decided here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from django.conf import settings
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers.base import Trigger

LONGEST_EXPRESSION = 200
NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""The nicknames of crontab(5), and the five fields that they stand for; ``@reboot`` is no time."""


@dataclass(frozen=True, repr=False)
class Cron(Trigger):
    """``Cron("*/5 9-18 * * 1-5", tz="Asia/Shanghai")``: five fields, or six, of which the first is seconds.

    ``@hourly``, ``@daily``, ``@weekly``, ``@monthly`` and ``@yearly`` stand for five fields, in which they are kept.
    Names of months and days, ``L``, ``LW``, ``5L`` (the last Friday) and ``1#2`` (the second Monday) are supported.
    ``tz`` is a name of the IANA database; None is the project's ``TIME_ZONE``. DST changes are handled as by Debian's
    cron: a local time that is skipped (spring) runs at the first moment after the gap, and one that occurs twice
    (autumn) runs once. Expressions with ``*`` in hours or minutes follow elapsed time instead of local time.
    """

    expression: str
    tz: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str) or len(self.expression) > LONGEST_EXPRESSION:
            raise InvalidTrigger(
                "expression", self.expression, f"expected a string of at most {LONGEST_EXPRESSION} characters"
            )
        self._set("expression", _in_fields(self.expression))
        self._set("tz", _checked(self.tz))
        try:
            first = next(CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)), None)
        except (CronSimError, ValueError) as error:
            raise InvalidTrigger("expression", self.expression, f"is not a cron expression: {error}") from None
        if first is None:
            raise InvalidTrigger("expression", self.expression, "never matches")

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the expression."""
        return ZoneInfo(self.tz or settings.TIME_ZONE)

    def _next(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        return self._first(local, lambda found: found > moment)

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        # Backwards, cronsim starts before the given moment, which may be a time itself.
        local = (until + timedelta(microseconds=1)).astimezone(self.zone)
        if self._is_on_the_wall:
            local += _repeated(local)
        return self._first(local, lambda found: found <= until, reverse=True)

    def _first(self, local: datetime, suits: Callable[[datetime], bool], reverse: bool = False) -> datetime | None:
        try:
            return next(filter(suits, self._times(local, reverse)), None)
        except OverflowError:
            return None

    def _times(self, local: datetime, reverse: bool) -> Iterator[datetime]:
        if not self._is_on_the_wall:
            yield from CronSim(self.expression, local, reverse=reverse)
            return
        for wall in CronSim(self.expression, local.replace(tzinfo=None), reverse=reverse):
            yield _on(wall, self.zone)

    @property
    def _is_on_the_wall(self) -> bool:
        """Whether the expression follows local time: as in Debian's cron, if neither minutes nor hours have a star.

        cronsim does so itself for five fields, but goes back in time during an hour that occurs a second time.
        """
        minutes, hours = self.expression.split()[-5:-3]
        return not minutes.startswith("*") and not hours.startswith("*")

    @property
    def description(self) -> str:
        return _("%(times)s (%(zone)s)") % {"times": self._times_in_words(), "zone": self.tz or settings.TIME_ZONE}

    def _times_in_words(self) -> str:
        if not (get_language() or "en").startswith("en"):  # cronsim has English words only
            return _("At the times of “%s”") % self.expression
        return str(CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)).explain())

    def _own_arguments(self) -> Iterator[str]:
        yield repr(self.expression)
        if self.tz:
            yield f"tz={self.tz!r}"


def _in_fields(expression: str) -> str:
    """Return the fields with one space between them; those of a nickname if it is one.

    Equal times have the same text, and executors of a release without nicknames can read it.
    """
    fields = " ".join(expression.split())
    if not fields.startswith("@"):
        return fields
    if fields not in NICKNAMES:
        raise InvalidTrigger(
            "expression", expression, f"is not a cron expression: the nicknames are {', '.join(NICKNAMES)}"
        )
    return NICKNAMES[fields]


def _on(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when the local time ``wall`` first occurs in the zone; if a DST change skips it, the end of the gap."""
    found = wall.replace(tzinfo=zone)
    if _is_shown(found):
        return found
    found = found.replace(second=0)
    while not _is_shown(found):
        found += timedelta(minutes=1)
    return found


def _is_shown(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None)


def _repeated(local: datetime) -> timedelta:
    """Return by how much clocks were set back if ``local`` is in an hour that occurs a second time; otherwise zero."""
    first, now = local.replace(fold=0).utcoffset(), local.utcoffset()
    assert first is not None
    assert now is not None
    return max(first - now, timedelta())


def _checked(tz: Any) -> str | None:
    if tz is None:
        return None
    name = str(tz) if isinstance(tz, ZoneInfo) else tz
    try:
        if isinstance(name, str):
            ZoneInfo(name)
            return name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise InvalidTrigger("tz", tz, "is not a time zone of the IANA database")

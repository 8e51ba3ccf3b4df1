"""Cron expressions, parsed by the library cronsim; how they behave across DST changes is decided here."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError
from django.conf import settings
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers.base import Trigger

MAX_EXPRESSION = 200
"""Characters of an expression, whose trigger's text has the time zone and more in :data:`~.base.MAX_TEXT`."""
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
_FIELDS: Final = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of the month": "1 to 31, L, LW",
    "month": "1 to 12, JAN to DEC",
    "day of the week": "0 to 7, SUN to SAT, 5L, 1#2",
}
"""The fields of an expression, and the values that each may have; the first one is optional."""


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
        if not isinstance(self.expression, str) or len(self.expression) > MAX_EXPRESSION:
            raise InvalidTrigger(
                "expression", self.expression, f"expected a string of at most {MAX_EXPRESSION} characters"
            )
        self._set("expression", _in_fields(self.expression))
        self._set("tz", _checked(self.tz))
        try:
            first = next(CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)), None)
        except (CronSimError, ValueError):
            first = None
        if first is None:
            raise InvalidTrigger("expression", self.expression, _problem_of(self.expression))

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the expression."""
        return ZoneInfo(self.tz or settings.TIME_ZONE)

    def _next(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        # Local times before this one may be still to come, if clocks are about to be set back over them.
        return self._first(local - _repeated(local, fold=0), lambda found: found > moment)

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        # Backwards, cronsim starts before the given moment, which may be a time itself.
        local = (until + timedelta(microseconds=1)).astimezone(self.zone)
        return self._first(local + _repeated(local, fold=1), lambda found: found <= until, reverse=True)

    def _first(self, local: datetime, suits: Callable[[datetime], bool], reverse: bool = False) -> datetime | None:
        # cronsim knows no time zones here: its own ways over changes of clocks are for those by a whole hour.
        walls = CronSim(self.expression, local.replace(tzinfo=None), reverse=reverse)
        times = map(self.once, walls) if self.is_on_the_wall else _as_shown(walls, self.zone, reverse)
        try:
            return next(filter(suits, times), None)
        except (OverflowError, ValueError):  # at the ends of the calendar
            return None

    def once(self, wall: datetime) -> datetime:
        """Return when the local time ``wall`` first occurs; if a DST change skips it, the end of the gap."""
        return next(iter(_shown(wall, self.zone)), None) or _end_of_gap(wall, self.zone)

    @property
    def is_on_the_wall(self) -> bool:
        """Whether the expression follows local time: as in Debian's cron, if neither minutes nor hours have a star."""
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


def _problem_of(expression: str) -> str:
    """Return the problem with an expression that has no next time: its number of fields, or the first wrong one."""
    given = expression.split()
    if len(given) not in (5, 6):
        names = ", ".join([*_FIELDS][1:])
        fields = "1 field" if len(given) == 1 else f"{len(given)} fields"
        return f"is not a cron expression: it has {fields}; expected {names}, and optionally the second before them"
    for name, text in zip([*_FIELDS][-len(given) :], given, strict=True):
        if not _is_valid(name, text):
            values = f"{_FIELDS[name]}, or a list (1,3), an ascending range (1-5) or a step (*/2)"
            return f"is not a cron expression: its {name} is {text!r}; expected *, {values}"
    return "never matches"


def _is_valid(name: str, text: str) -> bool:
    """Return whether an expression with this text as its only field that is no star is accepted."""
    try:
        CronSim(" ".join(text if name == field else "*" for field in _FIELDS), datetime(2000, 1, 1, tzinfo=UTC))
    except (CronSimError, ValueError):
        return False
    return True


def _shown(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return the moments, in UTC, at which clocks in the zone show this local time: none, one or two."""
    moments = sorted({wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)})
    return [moment for moment in moments if moment.astimezone(zone).replace(tzinfo=None, fold=0) == wall]


def _as_shown(walls: Iterable[datetime], zone: ZoneInfo, reverse: bool) -> Iterator[datetime]:
    """Yield all moments at which these local times are shown, in order: all of a repeated hour before it repeats."""
    again: deque[datetime] = deque()
    for wall in walls:
        moments = _shown(wall, zone)[:: -1 if reverse else 1]
        while moments and again and (again[0] < moments[0]) is not reverse:
            yield again.popleft()
        yield from moments[:1]
        again += moments[1:]
    yield from again


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment, in UTC, at which clocks were set forward over this local time."""
    before, after = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // timedelta(seconds=2) * timedelta(seconds=1)
        before, after = (middle, after) if middle.astimezone(zone).utcoffset() == offset else (before, middle)
    return after


def _repeated(local: datetime, fold: int) -> timedelta:
    """Return by how much clocks are set back if ``local`` occurs twice and is the one of this fold; otherwise zero."""
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    assert first is not None
    assert second is not None
    return max(first - second, timedelta()) if local.fold == fold else timedelta()


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
    raise InvalidTrigger("tz", tz, f"is not a time zone of the IANA database{_zone_like(name)}")


def _zone_like(name: Any) -> str:
    """Return the end of a message that names the zone that was probably meant; empty if there is none."""
    zones = {text: zone for zone in sorted(available_timezones()) for text in (zone, zone.rpartition("/")[2])}
    close = get_close_matches(str(name), zones, n=1, cutoff=0.75)
    return f"; did you mean {zones[close[0]]!r}?" if close else ""

"""Cron expressions, read by the library cronsim; which clock they go by on days when clocks change is decided here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from django.conf import settings

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers.base import Trigger

LONGEST_EXPRESSION = 200


@dataclass(frozen=True, repr=False)
class Cron(Trigger):
    """``Cron("*/5 9-18 * * 1-5", tz="Asia/Shanghai")``: five fields, or six, of which the first is seconds.

    Names of months and days, ``L``, ``LW``, ``5L`` (the last Friday) and ``1#2`` (the second Monday) are known. ``tz``
    is a name of the IANA database; None is the project's ``TIME_ZONE``. As Debian's cron does: a time that does not
    exist on a day (spring) is run at the first moment that does, a time that comes twice (autumn) is run once; but
    expressions with ``*`` in hours or minutes follow the clock of the world, not that on the wall.
    """

    expression: str
    tz: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str) or len(self.expression) > LONGEST_EXPRESSION:
            raise InvalidTrigger(
                "expression", self.expression, f"expected a text of at most {LONGEST_EXPRESSION} characters"
            )
        self._set("expression", " ".join(self.expression.split()))
        self._set("tz", _checked(self.tz))
        try:
            first = next(CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)), None)
        except (CronSimError, ValueError) as error:
            raise InvalidTrigger("expression", self.expression, f"is no cron expression: {error}") from None
        if first is None:
            raise InvalidTrigger("expression", self.expression, "never comes true")

    @property
    def zone(self) -> ZoneInfo:
        """Where the expression is to be read."""
        return ZoneInfo(self.tz or settings.TIME_ZONE)

    def _next(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        return self._first(local, lambda found: found > moment)

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        # Backwards it begins before the given moment, which may be a time itself.
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
        """Whether it follows the clock on the wall: as Debian's cron has it, if neither minutes nor hours have a star.

        cronsim does so itself for five fields, but goes back in time if asked in an hour that comes a second time.
        """
        minutes, hours = self.expression.split()[-5:-3]
        return not minutes.startswith("*") and not hours.startswith("*")

    @property
    def description(self) -> str:
        text = CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()
        return f"{text} ({self.tz or settings.TIME_ZONE})"

    def _own_arguments(self) -> Iterator[str]:
        yield repr(self.expression)
        if self.tz:
            yield f"tz={self.tz!r}"


def _on(wall: datetime, zone: ZoneInfo) -> datetime:
    """When a clock there shows this: the first time that it does; if it never does, when it goes on."""
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
    """How much of what the clock has shown by now it is showing again."""
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
    raise InvalidTrigger("tz", tz, "is no time zone of the IANA database")

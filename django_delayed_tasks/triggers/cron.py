"""Cron expressions, with all their daylight-saving cases, by the library cronsim."""

from collections.abc import Iterator
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
            raise InvalidTrigger("expression", self.expression, f"expected a text of {LONGEST_EXPRESSION} characters")
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
        return self._first(moment, reverse=False)

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        # Backwards it begins before the given moment, which may be a time itself.
        return self._first(until + timedelta(microseconds=1), reverse=True)

    def _first(self, moment: datetime, reverse: bool) -> datetime | None:
        try:
            return next(CronSim(self.expression, moment.astimezone(self.zone), reverse=reverse), None)
        except OverflowError:
            return None

    @property
    def description(self) -> str:
        text = CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()
        return f"{text} ({self.tz or settings.TIME_ZONE})"

    def _own_arguments(self) -> Iterator[str]:
        yield repr(self.expression)
        if self.tz:
            yield f"tz={self.tz!r}"


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

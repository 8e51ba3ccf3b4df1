"""A trigger with one time only."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.triggers import values
from django_delayed_tasks.triggers.base import Trigger


@dataclass(frozen=True, repr=False)
class Once(Trigger):
    """One time, ``when``: an aware datetime, or ISO 8601 text."""

    when: datetime

    def __post_init__(self) -> None:
        super().__post_init__()
        when = values.moment("when", self.when)
        if when is None:
            raise InvalidTrigger("when", None, "expected an aware datetime")
        self._set("when", when)

    def _next(self, moment: datetime) -> datetime | None:
        return self.when if self.when > moment else None

    def _latest(self, after: datetime, until: datetime) -> datetime | None:
        return self.when if self.when <= until else None

    @property
    def description(self) -> str:
        return _("Once, at %s") % self.when.isoformat(sep=" ")

    def _own_arguments(self) -> Iterator[str]:
        yield values.literal(self.when)

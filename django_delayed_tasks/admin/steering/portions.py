"""Actions on all rows that match: each request changes a portion of them, and the next begins where it ended."""

import re
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from django_delayed_tasks.admin.lists.base import page_context
from django_delayed_tasks.admin.steering import question

PORTION: Final = 500
"""The number of rows that one request changes."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an action on all rows that match: to the key ``after``; it ends with the key ``until``.

    Rows that were added after the user was asked have higher keys: they are not changed.
    """

    after: int = 0
    until: int = 0
    total: int = 0
    asked: int = 0
    changed: int = 0

    @classmethod
    def begin(cls, rows: "QuerySet[Any]", total: int) -> "Progress":
        """Return the progress of an action that has not begun."""
        latest = rows.model._base_manager.using(rows.db).order_by("-pk").values_list("pk", flat=True).first()
        return cls(until=latest or 0, total=total)

    @classmethod
    def read(cls, request: HttpRequest) -> "Progress":
        """Return the progress that the request says."""
        given = {name: request.POST.get(name, "") for name in cls.__slots__}
        if not all(map(_NUMBER.fullmatch, given.values())):
            raise BadRequest("the progress of the action is not a list of numbers")
        return cls(**{name: int(value) for name, value in given.items()})

    def inputs(self) -> list[tuple[str, int]]:
        """Return the inputs from which the next request reads it."""
        return [(name, getattr(self, name)) for name in self.__slots__]

    def portion(self, rows: "QuerySet[Any]") -> list[Any]:
        """Return the next rows, in the order of their keys."""
        return list(rows.order_by("pk").filter(pk__gt=self.after, pk__lte=self.until)[:PORTION])

    def passed(self, portion: list[Any], changed: int) -> "Progress":
        """Return the progress after this portion."""
        after = portion[-1].pk if portion else self.until
        return Progress(after, self.until, self.total, self.asked + len(portion), self.changed + changed)

    @property
    def is_exact(self) -> bool:
        """Whether ``total`` is the number of all rows, and not a bound of it."""
        return self.total <= question.COUNTED


def page(admin: Any, request: HttpRequest, text: Any, progress: Progress) -> HttpResponse:
    """Return the page that shows the progress. It submits the next portion by itself, or by its button."""
    context = {
        **page_context(admin, request, text),
        "progress": progress,
        "hidden": [*question.inputs(request), (question.CONFIRMED, "1"), *progress.inputs()],
    }
    return TemplateResponse(request, "admin/django_delayed_tasks/portions.html", context)

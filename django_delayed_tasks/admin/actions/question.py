"""The page that asks before an action, with the number of rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.admin.lists.base import page_context
from django_delayed_tasks.admin.lists.columns import number_text
from django_delayed_tasks.admin.lists.filters import RECENT

CONFIRMED: Final = "confirmed"
"""The name of the input that says that the user was asked."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the user: a sentence, with its effect, about ``count`` rows, of which some are listed.

    ``yes`` is the text of the button, with the ``count`` of rows and how it is ``shown``.
    """

    text: Any
    yes: Any
    effect: Any
    count: int
    rows: Sequence[Any]

    @property
    def count_text(self) -> str:
        """The number of rows, which is exact up to a bound."""
        if self.count > RECENT:
            return _("More than %(count)s are selected.") % {"count": number_text(RECENT)}
        text = ngettext("%(count)s is selected.", "%(count)s are selected.", self.count)
        return text % {"count": number_text(self.count)}

    @property
    def button(self) -> str:
        """The label of the button: the number of rows that it changes, or all of them if they were not counted."""
        if self.count > RECENT:
            return _("Yes, all of them")
        return str(self.yes % {"count": self.count, "shown": number_text(self.count)})

    @property
    def more(self) -> int:
        """The number of rows that are not listed."""
        return self.count - len(self.rows)

    @property
    def more_text(self) -> str:
        return _("and %s more") % number_text(self.more) if self.count <= RECENT else _("and many more")


def is_across(request: HttpRequest) -> bool:
    """Return whether all rows that match are selected, not only those on the page."""
    return request.POST.get("select_across") == "1"


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the user has been asked."""
    return CONFIRMED in request.POST


def count(rows: "QuerySet[Any]") -> int:
    """Return the number of rows, exact up to ``RECENT``."""
    return rows.order_by().values("pk")[: RECENT + 1].count()


def some_of(rows: "QuerySet[Any]") -> list[Any]:
    """Return the first rows in the list's order, whose keys come from an index alone."""
    keys = list(rows.values_list("pk", flat=True)[:20])
    found = rows.model._base_manager.using(rows.db).in_bulk(keys)
    return [found[key] for key in keys if key in found]


def ask(admin: Any, request: HttpRequest, question: Question, hidden: Iterable[tuple[str, Any]] = ()) -> HttpResponse:
    """Return the page that asks. Its button submits the action again, confirmed."""
    context = {
        **page_context(admin, request, question.text),
        "question": question,
        "hidden": [*inputs(request), (CONFIRMED, "1"), *hidden],
    }
    return TemplateResponse(request, "admin/django_delayed_tasks/question.html", context)


def inputs(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the inputs with which the action and its selection are submitted again."""
    kept = ("action", "select_across", ACTION_CHECKBOX_NAME, seen.NAME)
    found = [(name, value) for name in kept for value in request.POST.getlist(name)]
    return _without_choices_of_other_buttons(found)


def _without_choices_of_other_buttons(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep one action: a page may have a choice of actions at the top and at the bottom."""
    action = next(pair for pair in found if pair[0] == "action")
    return [action, *(pair for pair in found if pair[0] != "action")]

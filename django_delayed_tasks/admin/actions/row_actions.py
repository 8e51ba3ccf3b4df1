"""Actions on the rows of a list: asked about first, done in portions, fenced by the versions that the page showed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import BadRequest
from django.db import connections
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_delayed_tasks.admin.actions import question, seen
from django_delayed_tasks.admin.actions.verbs import Action
from django_delayed_tasks.admin.lists.base import KEY, AdminMixin
from django_delayed_tasks.conf import settings
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.sql.portions import PORTION
from django_delayed_tasks.support.durations import number_text

MAX_SECONDS: Final = 15.0
"""The time after which a request stops, and asks about the rows that are left: many web servers end one after 30 s.

Under ATOMIC_REQUESTS a fifth of it: locks on that many rows must not outlast the lease of an executor.
"""

Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class Keys:
    """The rows that an action has still to be done to, of all that match: those after one key, until another.

    Rows that were added after the user was asked have higher keys: they are not changed.
    """

    after: int
    until: int

    @classmethod
    def all_of(cls, rows: Rows) -> "Keys":
        """Return all keys that there are now."""
        latest = rows.model._base_manager.using(rows.db).order_by("-pk").values_list("pk", flat=True).first()
        return cls(0, latest or 0)

    @classmethod
    def read(cls, request: HttpRequest) -> "Keys":
        """Return the keys in the request."""
        given = [request.POST.get(name, "") for name in cls.__slots__]
        if not all(map(KEY.fullmatch, given)):
            raise BadRequest("the keys of the action are no numbers")
        return cls(*map(int, given))

    def inputs(self) -> list[tuple[str, int]]:
        """Return the inputs from which the next request reads them."""
        return [(name, getattr(self, name)) for name in self.__slots__]

    def of(self, rows: Rows) -> Rows:
        """Return the rows that have these keys."""
        return rows.filter(pk__gt=self.after, pk__lte=self.until)


class RowActions(AdminMixin):
    """A list whose actions change rows in the versions that were seen."""

    needed: Sequence[str]
    """The columns that actions need."""
    changed_text: Any
    unchanged_text: Any
    """Texts about a number of rows, by the ``count`` of rows and how it is ``shown``."""

    @admin.display(description=gettext_lazy("select"))
    def action_checkbox(self, obj: Any) -> SafeString:
        return format_html(
            '{}<input type="hidden" name="{}" value="{}">', super().action_checkbox(obj), seen.NAME, seen.mark(obj)
        )

    def act(self, request: HttpRequest, rows: Rows, action: Action) -> HttpResponse | None:
        """Ask the user if needed; otherwise do the action to the rows, and ask again about those that are left."""
        is_across = question.is_across(request)
        if not question.is_confirmed(request) and (is_across or _is_asked_about(rows, action)):
            return self._ask(request, rows, action, Keys.all_of(rows).inputs() if is_across else ())
        if not is_across:
            self._act_on_selected(request, rows, action)
            return None
        left = self._act_on_all(request, rows, action, Keys.read(request))
        if left is None or not left.of(rows).exists():
            return None
        self.message_user(request, _("The rest is left unchanged until you continue."), messages.WARNING)
        return self._ask(request, left.of(rows), action, left.inputs())

    def _ask(self, request: HttpRequest, rows: Rows, action: Action, keys: Iterable[tuple[str, int]]) -> HttpResponse:
        return question.ask(self, request, action.asked(question.count(rows), question.some_of(rows)), keys)

    def _act_on_selected(self, request: HttpRequest, rows: Rows, action: Action) -> None:
        versions, found = seen.versions(request), list(self._light(rows))
        for row in found:
            row.version = versions.get(row.pk, -1)
        changed = _apply(request, found, action) if found else 0
        selected = set(request.POST.getlist(ACTION_CHECKBOX_NAME))  # some may no longer match the page's filters
        self._report(request, changed, max(len(selected), len(found)), action)

    def _act_on_all(self, request: HttpRequest, rows: Rows, action: Action, keys: Keys) -> Keys | None:
        """Act on the rows of these keys; return the keys that are left when the time is over.

        Those that were not on the page are taken in their present versions.
        """
        versions, asked, changed = seen.versions(request), 0, 0
        end = monotonic() + (MAX_SECONDS / 5 if connections[rows.db].in_atomic_block else MAX_SECONDS)
        left: Keys | None = keys
        while left and (portion := list(self._light(left.of(rows))[:PORTION])):
            for row in portion:
                row.version = versions.get(row.pk, row.version)
            changed += _apply(request, portion, action)
            asked += len(portion)
            left = Keys(portion[-1].pk, keys.until) if len(portion) == PORTION else None
            if monotonic() >= end:
                break
        self._report(request, changed, asked, action)
        return left

    def _light(self, rows: Rows) -> Rows:
        light: Rows = rows.only(*self.needed).order_by("pk")
        return light

    def _report(self, request: HttpRequest, changed: int, asked: int, action: Action) -> None:
        for count, text in ((changed, self.changed_text), (asked - changed, self.unchanged_text)):
            if count:
                values = {"count": count, "shown": number_text(count), "done": action.done}
                level = messages.SUCCESS if text is self.changed_text else messages.WARNING
                self.message_user(request, text % values, level)


def _is_asked_about(rows: Rows, action: Action) -> bool:
    return action.asks_from is not None and question.count(rows) >= action.asks_from


def _apply(request: HttpRequest, rows: Sequence[Any], action: Action) -> int:
    """Change those of these rows that are in their versions, log them, wake executors; return how many changed."""
    ids = set(action.do(settings.DATABASE, [(row.pk, row.version) for row in rows]))
    log(request, [row for row in rows if row.pk in ids], str(action.done))
    wakeup.when_committed(settings.DATABASE)
    return len(ids)


def log(request: HttpRequest, rows: Sequence[Model], done: str) -> None:
    """Write an entry for each row into the admin's log."""
    message: Any = _("%s.") % (done[:1].upper() + done[1:])
    if rows:
        LogEntry.objects.log_actions(request.user.pk, rows, CHANGE, message)  # type: ignore[arg-type]

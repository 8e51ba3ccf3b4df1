"""The actions on tasks, and the questions that come before them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_delayed_tasks.admin.actions.question import Question
from django_delayed_tasks.store.schedules import pause, verbs
from django_delayed_tasks.store.sql.fences import Seen

ALWAYS, SEVERAL = 1, 2
"""The numbers of tasks from which on the user is asked."""


@dataclass(frozen=True, slots=True)
class Action:
    """The verb of an action: ``do`` changes the rows that are in the versions given, and returns their ids.

    ``yes``: what the button says, with the ``count`` of rows and how it is ``shown``. ``asks_from``: the number of
    selected rows from which on the user is asked; None if the effect can be undone, so that the user is asked only
    about rows that were not on the page.
    """

    do: Callable[[str, Collection[Seen]], Collection[int]]
    question: Any
    yes: Any
    effect: Any
    done: Any
    asks_from: int | None

    def asked(self, count: int, rows: Sequence[Any]) -> Question:
        """Return the question to the user before it is done to ``count`` rows."""
        return Question(self.question, self.yes, self.effect, count, rows)

    def method(self, label: Any, permission: str) -> Any:
        """Return the method of a model's admin that offers this action, and does it by the admin's ``act``."""

        @admin.action(description=label, permissions=[permission])
        def act(model_admin: Any, request: HttpRequest, rows: "QuerySet[Any]") -> Any:
            return model_admin.act(request, rows, self)

        return act


RUN_NOW: Final = Action(
    verbs.RUN_NOW.to_seen,
    _("Run these tasks now?"),
    ngettext_lazy("Yes, run %(shown)s task now", "Yes, run %(shown)s tasks now", "count"),
    _("Pending tasks become claimable at once. Their time is lost, unless they recur."),
    _("made claimable at once"),
    SEVERAL,
)
POSTPONE: Final = Action(
    verbs.postponing(timedelta(hours=1)).to_seen,
    _("Postpone these tasks by an hour?"),
    ngettext_lazy("Yes, postpone %(shown)s task", "Yes, postpone %(shown)s tasks", "count"),
    _("Pending tasks wait an hour longer than their time, or than now if it has passed."),
    _("postponed"),
    SEVERAL,
)
RETRY_FAILED: Final = Action(
    verbs.RETRY.to_seen,
    _("Retry these tasks?"),
    ngettext_lazy("Yes, retry %(shown)s task", "Yes, retry %(shown)s tasks", "count"),
    _("Failed tasks become pending again, with their attempts reset. Their errors are kept in the history only."),
    _("made pending again"),
    SEVERAL,
)
CANCEL: Final = Action(
    verbs.CANCEL.to_seen,
    _("Cancel these tasks?"),
    ngettext_lazy("Yes, cancel %(shown)s task", "Yes, cancel %(shown)s tasks", "count"),
    _("Waiting tasks are removed, and the history records that. Running tasks are asked to stop."),
    _("cancelled, or asked to stop if running"),
    ALWAYS,
)
PAUSE: Final = Action(
    verbs.PAUSE_UNPAUSED.to_seen,
    _("Pause these tasks?"),
    ngettext_lazy("Yes, pause %(shown)s task", "Yes, pause %(shown)s tasks", "count"),
    _("They do not run until they are resumed. Running tasks finish first."),
    _("paused, or will be after the current run"),
    None,
)
RESUME: Final = Action(
    pause.resume_seen,
    _("Resume these tasks?"),
    ngettext_lazy("Yes, resume %(shown)s task", "Yes, resume %(shown)s tasks", "count"),
    _("Paused tasks wait for their time again. Missed times of recurring tasks are not made up for."),
    _("resumed"),
    None,
)

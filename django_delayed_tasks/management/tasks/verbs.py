"""The verbs of ``manage.py tasks`` that change tasks; each returns how many tasks it changed."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.management.tasks import selection
from django_delayed_tasks.models import Task
from django_delayed_tasks.outcomes import UNCHANGED, AddResult
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import verbs
from django_delayed_tasks.store.schedules.verbs import Verb
from django_delayed_tasks.store.validation import valid_offset, valid_when


class Change(NamedTuple):
    """A change that the arguments ask for.

    Attributes:
        tasks: the tasks that it applies to.
        verb: what is done to each.
        question: what to ask before; empty if the change can be undone.
        done: what has been done, for the numbers of tasks by the status that each was in.
    """

    tasks: "QuerySet[Task]"
    verb: Verb
    question: str
    done: Callable[[Counter[int]], str]


def add(given: dict[str, Any]) -> AddResult:
    """Add the task that the arguments describe.

    Raises:
        TaskException: a value is not accepted, or the task exists and ``--if-exists raise`` was given.
    """
    task = Task(
        biz_code=given["code"], biz_num=given["number"], when=given["when"], biz_ext=given["data"],
        queue=given["queue"], priority=given["priority"], trigger=given["trigger"], expires_at=given["expires"],
    )  # fmt: skip
    return api.add_task(task, if_exists=given["if_exists"], once=given["once"], using=given["database"])


CANCEL: Any = ngettext_lazy(
    "Cancel %(count)d task of %(code)s? This cannot be undone.",
    "Cancel %(count)d tasks of %(code)s? This cannot be undone.",
    "count",
)
CANCELLED: Any = ngettext_lazy("%d task was cancelled.", "%d tasks were cancelled.")
STOPPING: Any = ngettext_lazy(
    "%d task is running: it was asked to stop, and will not be run again.",
    "%d tasks are running: they were asked to stop, and will not be run again.",
)
RETRIED: Any = ngettext_lazy("%d failed task is pending again.", "%d failed tasks are pending again.")
RESCHEDULE: Any = ngettext_lazy(
    "Reschedule %(count)d task of %(code)s? Its present time is not kept.",
    "Reschedule %(count)d tasks of %(code)s? Their present times are not kept.",
    "count",
)
RESCHEDULED: Any = ngettext_lazy("%d task was rescheduled.", "%d tasks were rescheduled.")


def cancelling(given: dict[str, Any]) -> Change:
    """Return the change of the verb ``cancel``."""
    tasks = selection.selected(given)
    return Change(tasks, verbs.CANCEL, _question(CANCEL, tasks, given), _cancelled)


def _cancelled(changed: Counter[int]) -> str:
    stopping = changed[TaskStatus.RUNNING]
    counts = ((CANCELLED, changed.total() - stopping), (STOPPING, stopping))
    return "\n".join(text % count for text, count in counts if count)


def retrying(given: dict[str, Any]) -> Change:
    """Return the change of the verb ``retry``."""
    return Change(selection.failed(given), verbs.RETRY, "", lambda changed: RETRIED % changed.total())


def running_now(given: dict[str, Any]) -> Change:
    """Return the change of the verb ``run-now``."""
    return Change(selection.named(given), verbs.RUN_NOW, "", lambda changed: _("The task is due now."))


def rescheduling(given: dict[str, Any]) -> Change:
    """Return the change of the verb ``reschedule``: to a time for one task, by a span for many.

    Raises:
        InvalidTask: neither ``--when`` nor ``--by`` is given, or many tasks would get the same time.
    """
    tasks = selection.selected(given)
    if given["by"] is not None:
        verb = verbs.rescheduling_by(valid_offset(given["by"], "by"))
        question = _question(RESCHEDULE, tasks, given) if given["number"] is None else ""
        return Change(tasks, verb, question, _rescheduled)
    if given["when"] is UNCHANGED:
        raise InvalidTask("when", None, "give either --when or --by")
    if given["number"] is None:
        raise InvalidTask("number", None, "--when is for one task: name its number, or move many with --by")
    return Change(tasks, verbs.rescheduling(valid_when(given["when"])), "", _rescheduled)


def _rescheduled(changed: Counter[int]) -> str:
    return str(RESCHEDULED % changed.total())


def _question(text: Any, tasks: "QuerySet[Task]", given: dict[str, Any]) -> str:
    if given["yes"] or given["dry_run"]:
        return ""
    count = tasks.count()
    return str(text % {"count": count, "code": given["code"]}) if count else ""


CHANGES: dict[str, Callable[[dict[str, Any]], Change]] = {
    "cancel": cancelling,
    "retry": retrying,
    "run-now": running_now,
    "reschedule": rescheduling,
}

ONLY: Final = {
    "retry": (TaskStatus.FAILED, gettext_lazy("%(code)s %(number)s is %(status)s; only failed tasks can be retried.")),
    "run-now": (
        TaskStatus.PENDING, gettext_lazy("%(code)s %(number)s is %(status)s; only pending tasks can be made due now."),
    ),
}  # fmt: skip
"""The state that a verb needs, and what to say of a task in another one; the other verbs take a task in any state."""


def unchanged_text(verb: str, given: dict[str, Any]) -> str:
    """Return why the verb has changed no task."""
    names = {"code": given["code"], "number": given["number"]}
    if given["number"] is None:
        return _("No task was changed: there is none, or its state does not allow this.")
    task = selection.named(given).first()
    if task is None:
        return _("No task was changed: %(code)s has none with the number %(number)s.") % names
    needed, text = ONLY.get(verb, (task.status, ""))
    if task.status == needed:
        return _("No task was changed: this one changed at the same moment.")
    return str(text) % {**names, "status": TaskStatus(task.status).label}

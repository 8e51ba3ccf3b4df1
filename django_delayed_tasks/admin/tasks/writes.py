"""The writes of the forms on a task's page."""

from collections.abc import Mapping
from typing import Final

from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.utils.translation import gettext as _

from django_delayed_tasks import api
from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.admin.tasks.forms import AddTaskForm, ChangeTaskForm
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, TaskExists
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import AddAction, CancelResult, IfExists, TaskStatus
from django_delayed_tasks.store import validation
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.schedules import verbs
from django_delayed_tasks.store.schedules.add import add as write
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import TASK
from django_delayed_tasks.store.sql.transactions import atomically

EDITED: Final = ("when", "biz_ext", "queue", "priority")
"""The fields that can be changed individually."""


class Conflict(Exception):
    """The task is no longer as the page showed it; nothing was written. The text is shown to the user."""


def add(form: AddTaskForm) -> int:
    """Add the task that the form describes, and return its primary key."""
    task, once = form.task(form.cleaned_data), form.cleaned_data["once_only"]
    try:
        added = api.add_task(task, if_exists=IfExists.RAISE, once=once, using=settings.DATABASE)
    except (TaskExists, InvalidTask) as error:
        raise Conflict(str(error)) from error
    if added.action is AddAction.FILTERED:
        raise Conflict(_("“%s” was to run once only, and has succeeded before: nothing was written.") % task)
    task_id: int = added.task_id
    return task_id


def change(task: Task, form: ChangeTaskForm) -> None:
    """Write the fields that the user changed; the form has checked that ``task`` is in the version shown."""
    if form.is_new_schedule:
        replace(task, form)
    elif form.changed_data:
        edit(task, form)
    wakeup.when_committed(settings.DATABASE)


def edit(task: Task, form: ChangeTaskForm) -> None:
    """Change some fields, and leave the rest of the task's schedule unchanged."""
    changed = {name: form.cleaned_data[name] for name in form.changed_data}
    if "biz_ext" in changed:
        changed["biz_ext"] = validation.valid_json(changed["biz_ext"], settings.MAX_BIZ_EXT_BYTES)
    changes = verbs.Edit(**{name: changed[name] for name in EDITED if name in changed})
    if changes != verbs.Edit() and not changes.verb().to_seen(settings.DATABASE, [(task.pk, task.version)]):
        raise Conflict(str(seen.CHANGED))


def replace(task: Task, form: ChangeTaskForm) -> None:
    """Replace the task's schedule as ``add_task`` does.

    This resets the attempt counter, and detaches the task from its handler's declaration. A pause stays in effect.
    """
    alias = settings.DATABASE

    def work(cursor: CursorWrapper) -> None:
        dialect_of(connections[alias]).begin_writing(cursor, TASK)
        waiting = Task.objects.using(alias).select_for_update().exclude(status=TaskStatus.RUNNING)
        current = waiting.filter(pk=task.pk, version=task.version).first()
        if current is None:
            raise Conflict(str(seen.CHANGED))
        write(alias, form.schedule(current), IfExists.REPLACE)
        if current.status == TaskStatus.PAUSED:
            verbs.PAUSE.to_identity(alias, current.biz_code, current.biz_num)

    try:
        atomically(alias, work)
    except InvalidTask as error:
        raise Conflict(str(error)) from error


def cancel(versions: Mapping[int, int], task: Task) -> CancelResult:
    """Cancel the task if it is in the version shown; return CANCELLED or STOPPING."""
    found = verbs.CANCEL.to_seen(settings.DATABASE, [(task.pk, versions.get(task.pk, -1))])
    if not found:
        raise Conflict(str(seen.CHANGED))
    return CancelResult.STOPPING if found[task.pk] == TaskStatus.RUNNING else CancelResult.CANCELLED

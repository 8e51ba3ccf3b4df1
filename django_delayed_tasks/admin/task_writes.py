"""What the forms of one task's page write."""

from collections.abc import Mapping

from django.db import transaction

from django_delayed_tasks import api, store
from django_delayed_tasks.admin import seen
from django_delayed_tasks.admin.forms import AddTaskForm, ChangeTaskForm
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.executor import wakeup
from django_delayed_tasks.models import Task
from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import CancelResult, IfExists
from django_delayed_tasks.store import steering, validation


class Conflict(Exception):
    """The task is no longer as the page showed it; nothing was written. The text is for the person."""


def add(form: AddTaskForm) -> int:
    """Add the task that the form describes; its primary key."""
    try:
        added = api.add_task(form.task(form.cleaned_data), if_exists=IfExists.RAISE, using=settings.DATABASE)
    except TaskExists as error:
        raise Conflict(str(error)) from error
    task_id: int = added.task_id
    return task_id


def change(task: Task, form: ChangeTaskForm) -> None:
    """Write the fields that the person changed. That ``task`` is in the version shown was checked by the form."""
    if not form.changed_data:
        return
    changed = {name: form.cleaned_data[name] for name in form.changed_data}
    if "biz_ext" in changed:
        changed["biz_ext"] = validation.valid_json(changed["biz_ext"], settings.MAX_BIZ_EXT_BYTES)
    edit = steering.Edit(**{name: changed.get(name, UNCHANGED) for name in ("when", "biz_ext", "queue", "priority")})
    if not steering.edit(settings.DATABASE, (task.pk, task.version), edit):
        raise Conflict(str(seen.CHANGED))
    transaction.on_commit(wakeup.wake, using=settings.DATABASE)


def cancel(versions: Mapping[int, int], task: Task) -> CancelResult:
    """Cancel the task as it was seen: CANCELLED or STOPPING."""
    result = store.cancel_claim(settings.DATABASE, task.pk, versions.get(task.pk, -1))
    if result is CancelResult.MISSING:
        raise Conflict(str(seen.CHANGED))
    return result

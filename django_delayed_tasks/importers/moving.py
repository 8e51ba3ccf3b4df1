"""One row of another library becomes one task, in one transaction with the end of the row; or stays, with a reason."""

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from django_delayed_tasks import get_tasks_by_code
from django_delayed_tasks.handlers import task_named


class NotMoved(Exception):
    """A row, or an entry of beat, stays where it is; the message says why, and what to do instead."""


class Move(NamedTuple):
    """The task that a row becomes: a task function with what ``using`` chose, and its arguments."""

    task: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    changes: Sequence[str] = ()
    """The differences from before, as sentences without a period."""


def moved(row: Any, move_of: Any, dry_run: bool) -> str:
    """Enqueue what a row becomes, delete the row, and return when it will run and what is different.

    The row is locked and read again. The number of its task is made of the row's key: if the process ends between the
    two commits of two databases, the next import replaces the task.

    Raises:
        NotMoved: the row stays.
        Exception: likewise; such as one of the other library, of the import of a function, or of enqueuing.
    """
    rows, tasks = type(row)._base_manager.using(row._state.db), database()
    with transaction.atomic(using=rows.db), transaction.atomic(using=tasks):
        locked = rows.select_for_update().filter(pk=row.pk).first()
        if locked is None:
            raise NotMoved(_("another process has deleted it meanwhile"))
        move = move_of(locked)
        args, kwargs = in_json(list(move.args)), in_json(move.kwargs)
        move.task.enqueue(*args, **kwargs)
        locked.delete()
        for alias in {rows.db, tasks} if dry_run else ():
            transaction.set_rollback(True, using=alias)
    what = [str(move.task.trigger or move.task.run_after or _("as soon as possible")), *move.changes]
    if (args, kwargs) != (list(move.args), move.kwargs):
        what.append(_("its arguments become JSON: lists for tuples, text for bytes, moments, decimals and UUIDs"))
    return "; ".join(what)


def database() -> str:
    """Return the alias of the tasks' database."""
    return get_tasks_by_code().db


def escaped(text: str) -> str:
    """Return the text with escapes for what a terminal would not show: another library's rows may have any text."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def function_of(path: str) -> Any:
    """Return the task function of a dotted path.

    Raises:
        NotMoved: there is none of that name.
    """
    try:
        function = task_named(path)
    except ImportError as error:
        raise NotMoved(_("%(task)s cannot be imported: %(error)s") % {"task": path, "error": error}) from None
    return checked(function, path)


def checked(function: Any, path: str) -> Any:
    """Return the task if it belongs to this package's backend.

    Raises:
        NotMoved: it does not.
    """
    if not hasattr(function, "enqueue_on_commit") or not hasattr(function.get_backend(), "enqueue_again"):
        raise NotMoved(_("%s is not decorated with @task, or TASKS names another backend") % path)
    return function


def in_json(value: Any) -> Any:
    """Return the value as JSON has it; one that JSON does not have is refused when it is enqueued."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return value.decode()
        case list() | tuple():
            return [in_json(each) for each in value]
        case dict():
            return {key: in_json(each) for key, each in value.items()}
    return value

"""The way from a handler to the API, which handlers cannot import."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from asgiref.sync import sync_to_async

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import BizNum, CancelResult, IfExists, IfExistsName
from django_delayed_tasks.triggers import Trigger

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_delayed_tasks.models import Task, TaskRun

When = datetime | timedelta | None


class ScheduleOptions(TypedDict, total=False):
    """The options of ``schedule``: fields of the task, and arguments of ``add_task``."""

    queue: str | None
    priority: int | None
    trigger: Trigger | str | None
    expires_at: When
    if_exists: IfExists | IfExistsName
    once: bool
    using: str | None


class Facade(NamedTuple):
    """The part of the API that handlers use: the ``Task`` to be added, and functions that take a code and a number."""

    make_task: Callable[..., Any]
    add_task: Callable[..., AddResult]
    cancel: Callable[..., CancelResult]
    reschedule: Callable[..., bool]
    find_task: Callable[..., Any]
    find_runs: Callable[..., Any]


_facade: Facade | None = None


# Handlers are below the store and the API and need no database, so they can import neither `Task` nor
# `add_task`. `api.py`, which is above both, installs its functions here when it is imported; the app's
# `ready()` imports it.
def install(facade: Facade) -> None:
    """Set the functions by which handlers add and find tasks."""
    global _facade
    _facade = facade


def facade() -> Facade:
    """Return the functions of the API.

    Raises:
        TaskException: Django is not set up, or this app is not installed.
    """
    if _facade is None:
        problem = "add it to INSTALLED_APPS and call django.setup()"
        raise TaskException(f"django_delayed_tasks is not ready: {problem}")
    return _facade


def schedule(
    biz_code: str,
    biz_num: BizNum,
    when: When = None,
    biz_ext: Any = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    trigger: Trigger | str | None = None,
    expires_at: When = None,
    if_exists: IfExists | IfExistsName = IfExists.REPLACE,
    once: bool = False,
    using: str | None = None,
) -> AddResult:
    """Add a task of this code."""
    given = {"queue": queue, "priority": priority, "trigger": trigger, "expires_at": expires_at}
    task = facade().make_task(biz_code=biz_code, biz_num=biz_num, when=when, biz_ext=biz_ext, **given)
    return facade().add_task(task, if_exists=if_exists, once=once, using=using)


class Scheduling:
    """The methods of handlers that schedule and find tasks of their code; a decorated function has them, too."""

    @classmethod
    def _own_code(cls) -> str:
        raise NotImplementedError

    @classmethod
    def schedule(
        cls,
        biz_num: BizNum,
        when: When = None,
        biz_ext: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> AddResult:
        """Add a task of this code.

        ``when`` is an aware datetime, a timedelta from now, or None for at once. ``options`` are the task's ``queue``,
        ``priority``, ``trigger`` and ``expires_at``, and the arguments of :func:`~django_delayed_tasks.api.add_task`:
        ``if_exists``, ``once``, ``using``.

        Raises:
            InvalidTask, UnknownCode, TaskExists: as for ``add_task``.
            InvalidHandler: only instances of the class have a code; so for the methods below.
        """
        try:
            return schedule(cls._own_code(), biz_num, when, biz_ext, **options)
        except TypeError as error:
            if options.keys() <= ScheduleOptions.__annotations__.keys():
                raise
            known = ", ".join(ScheduleOptions.__annotations__)
            raise TypeError(f"{error}: the arguments are biz_num, when, biz_ext (the data), {known}") from None

    @classmethod
    def cancel(cls, biz_num: BizNum, *, using: str | None = None) -> CancelResult:
        """Cancel the task of this code and number; see :func:`~django_delayed_tasks.api.cancel_task`."""
        return facade().cancel(cls._own_code(), biz_num, using=using)

    @classmethod
    def reschedule(cls, biz_num: BizNum, when: When, *, using: str | None = None) -> bool:
        """Give the task a new time; see :func:`~django_delayed_tasks.api.reschedule_task`."""
        return facade().reschedule(cls._own_code(), biz_num, when, using=using)

    @classmethod
    def get(cls, biz_num: BizNum, *, using: str | None = None) -> "Task | None":
        """Return the task of this code and number, in any status, or None if there is none.

        Raises:
            InvalidTask: the value is not a valid number.
        """
        task: Task | None = facade().find_task(cls._own_code(), biz_num, using)
        return task

    @classmethod
    def runs(cls, biz_num: BizNum, *, using: str | None = None) -> "QuerySet[TaskRun]":
        """Return the history of this code and number, newest first.

        Raises:
            InvalidTask: the value is not a valid number.
        """
        runs: QuerySet[TaskRun] = facade().find_runs(cls._own_code(), biz_num, using)
        return runs

    @classmethod
    async def aschedule(
        cls,
        biz_num: BizNum,
        when: When = None,
        biz_ext: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> AddResult:
        """Like :meth:`schedule`, to be awaited."""
        return await sync_to_async(cls.schedule)(biz_num, when, biz_ext, **options)

    @classmethod
    async def acancel(cls, biz_num: BizNum, *, using: str | None = None) -> CancelResult:
        """Cancel the task of this code and number."""
        return await sync_to_async(cls.cancel)(biz_num, using=using)

    @classmethod
    async def areschedule(cls, biz_num: BizNum, when: When, *, using: str | None = None) -> bool:
        """Give the task a new time."""
        return await sync_to_async(cls.reschedule)(biz_num, when, using=using)

    @classmethod
    async def aget(cls, biz_num: BizNum, *, using: str | None = None) -> "Task | None":
        """Return the task of this code and number, in any status, or None if there is none."""
        return await sync_to_async(cls.get)(biz_num, using=using)


METHODS = tuple(name for name in vars(Scheduling) if not name.startswith("_"))
"""The names of these methods."""

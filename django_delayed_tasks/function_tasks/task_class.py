"""The class of function tasks: that of a family, with what this store can do for a function and for one enqueuing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from django_delayed_tasks.function_tasks.options import OF_TASK
from django_delayed_tasks.handlers.named_code import exception_named
from django_delayed_tasks.triggers import Trigger

Call = tuple[Sequence[Any], Mapping[str, Any]]
"""The positional and the keyword arguments of one enqueuing."""


class Enqueuing:
    """The methods of a function of this store, which each family's class has."""

    __slots__ = ()

    def using(
        self: Any,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        biz_num: str | int | UUID | None = None,
        once: bool | None = None,
        trigger: Trigger | str | None = None,
        expires: datetime | timedelta | None = None,
    ) -> Any:
        """Return a copy of the task with these values; an argument that is None leaves the task's own value."""
        given: dict[str, Any] = {
            "priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend,
            "biz_num": biz_num, "once": once, "trigger": trigger, "expires": expires,
        }  # fmt: skip
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def enqueue_on_commit(self: Any, /, *args: Any, **kwargs: Any) -> None:
        """Enqueue when the current transaction of the default database is committed; at once if there is none.

        The backend of this store validates and copies the arguments now; others, such as Django's dummy backend, only
        validate the task.
        """
        backend = self.get_backend()
        if enqueue := getattr(backend, "enqueue_on_commit", None):
            enqueue(self, args, kwargs)
        else:
            backend.validate_task(self)
            transaction.on_commit(lambda: self.enqueue(*args, **kwargs))

    def bulk_enqueue(self: Any, calls: Iterable[Call]) -> list[Any]:
        """Enqueue once for each ``(args, kwargs)``; return the results, in their order."""
        return self.get_backend().bulk_enqueue((self, args, kwargs) for args, kwargs in calls)  # type: ignore[no-any-return]


def task_class_of(family: Any, module: str) -> Any:
    """Return the class of tasks for a family, to be ``DelayedTask`` in ``module``, where pickle finds it.

    Its fields are the family's, the options of functions, None where they are not given, and the fields of one
    enqueuing: ``biz_num`` gives it a business identity, so that enqueuing it again reschedules it; with ``once``, one
    that has succeeded is not enqueued again; with a ``trigger`` it recurs, with the same arguments.
    """
    own = [("biz_num", Any, None), ("once", bool, False), *((name, Any, None) for name in ("trigger", *OF_TASK))]
    bases = (Enqueuing, family.base.Task)
    made: Any = make_dataclass("DelayedTask", own, bases=bases, frozen=True, slots=True, kw_only=True)
    made.__module__, made.__doc__ = module, "A task function, and how to run it."
    return made


def error_class_of(family: Any, module: str) -> Any:
    """Return the class of errors in a family's results, to be ``StoredError`` in ``module``, where pickle finds it."""
    parent: Any = family.base.TaskError

    class StoredError(parent):  # type: ignore[misc]
        """An error of a run in the history, which names the class of its exception."""

        __slots__ = ()

        @property
        def exception_class(self) -> type[BaseException]:
            """The class, whose module is imported by our own rule for what a row names."""
            return exception_named(self.exception_class_path)

    StoredError.__module__, StoredError.__qualname__ = module, "StoredError"
    return StoredError


def result_class_of(family: Any, module: str) -> Any:
    """Return the class of a family's results, to be ``StoredResult`` in ``module``, where pickle finds it."""
    parent: Any = family.base.TaskResult

    class StoredResult(parent):  # type: ignore[misc]
        """A result, whose text shows no arguments: they may hold secrets."""

        __slots__ = ()

        def __repr__(self) -> str:
            return f"<TaskResult {self.id}: {self.status} {self.task.module_path}>"

    StoredResult.__module__, StoredResult.__qualname__ = module, "StoredResult"
    return StoredResult


def purged_class_of(parent: Any, module: str) -> Any:
    """Return the class of a family's results without a value, to be ``PurgedResult`` in ``module``."""

    @dataclass(frozen=True, slots=True, kw_only=True, repr=False)
    class PurgedResult(parent):  # type: ignore[misc]
        """The result of what was done once, and is no longer in the history: only that and when it succeeded is known.

        Its id is not the one of the result that was purged. ``return_value`` raises ValueError.
        """

        @property
        def return_value(self) -> Any:
            raise ValueError(
                f"The return value is no longer kept: the task succeeded on {self.finished_at:%Y-%m-%d at %H:%M:%S %Z},"
                " and the history of its run has been purged"
            )

    PurgedResult.__module__, PurgedResult.__qualname__ = module, "PurgedResult"
    return PurgedResult


def changed(task: Any, **values: Any) -> Any:
    """Return a task with these values, which are not validated: they may come from older rows.

    It is a copy; if it has these values already, the task itself.
    """
    if all(getattr(task, name, None) == value for name, value in values.items()):
        return task
    cls = type(task)
    copy = object.__new__(cls)
    for field in fields(cls):
        object.__setattr__(copy, field.name, values.get(field.name, getattr(task, field.name)))
    return copy

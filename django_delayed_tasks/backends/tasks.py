"""The backend for Django's Tasks framework, to be named in ``TASKS``.

A backend may be created before the app registry is ready, by any module that decorates a function. So this module, and
those that it imports, load no models until something is enqueued or looked up.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn

from asgiref.sync import sync_to_async
from django.core.signals import setting_changed
from django.db import transaction

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.function_tasks import handler as handlers
from django_delayed_tasks.function_tasks.families import asking_family, families, family_of
from django_delayed_tasks.handlers.attributes import queue_name
from django_delayed_tasks.states import CancelResult, TaskStatus

if not families():
    raise ImportError("the Tasks framework is part of Django 6.0; for Django 5.2, install the package django-tasks")
_base: Any = families()[0].backend_class  # the other family may be installed and not used: it is not imported here


class DelayedTasksBackend(_base):  # type: ignore[misc]
    """Runs functions decorated with ``@task`` as tasks of this store, in its executors.

    ``OPTIONS`` has fields of :class:`~django_delayed_tasks.function_tasks.options.FunctionOptions`, for all functions,
    and ``"functions"``, a dict of such options by the dotted paths of functions.
    """

    has_handlers = True
    """Tells executors to import the apps' ``tasks`` modules."""
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        self.family = asking_family()
        super().__init__(alias, params)

    @property
    def task_class(self) -> Any:
        """The class of tasks, of the family whose ``@task`` asks for it."""
        return self.family.task_class

    def validate_task(self, task: Any) -> None:
        """Refuse a task that cannot be run, and register the handler of its function if it has none.

        Raises:
            InvalidTask: the exception of the framework's family to which the task belongs.
        """
        family = family_of(task)
        try:
            queue_name(task.queue_name)
        except ValueError as error:
            raise family.invalid_task(f"queue_name={shortened(task.queue_name)}: {error}") from None
        if not isinstance(task.run_after, datetime | timedelta | None):
            raise family.invalid_task(
                f"run_after={shortened(task.run_after)}: must be an aware datetime or a timedelta"
            )
        family.backend_class.validate_task(self, _without_timedelta(task))
        try:
            handlers.registered(task, self.options)
        except (ValueError, TypeError, ImportError, InvalidHandler) as error:
            raise family.invalid_task(f"{task.module_path}: {error}") from error
        if getattr(task, "once", False) and task.biz_num is None:
            raise family.invalid_task("once=True needs a biz_num, which names what is to be done only once.")

    def enqueue(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Write the task's row, in the caller's transaction if there is one, and return the result, which is READY.

        With ``once``, an identity that has succeeded is not enqueued: its last result is returned.

        Raises:
            InvalidTask: the framework's exception; the task cannot be run.
            TypeError: an argument is of a type that JSON does not have.
            ValueError: the arguments contain what a database could not store, or would not return unchanged.
        """
        return self._enqueue(self._order(task, args, kwargs))

    def enqueue_on_commit(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Enqueue as :meth:`enqueue` does when the current transaction of the default database is committed.

        Raises:
            InvalidTask, TypeError, ValueError: as for :meth:`enqueue`, at once.
        """
        order = self._order(task, args, kwargs)
        transaction.on_commit(lambda: self._enqueue(order))

    def bulk_enqueue(self, calls: Iterable[tuple[Any, Sequence[Any], Mapping[str, Any]]]) -> list[Any]:
        """Enqueue for each ``(task, args, kwargs)``, many in one statement; return the results in the same order.

        Every call is validated before the first is written.

        Raises:
            InvalidTask, TypeError, ValueError: as for :meth:`enqueue`.
        """
        from django_delayed_tasks.function_tasks import enqueuing

        orders = [self._order(task, args, kwargs) for task, args, kwargs in calls]
        results = enqueuing.enqueue_many(settings.DATABASE, orders, self._announce)
        return [result or self._filtered(order) for order, result in zip(orders, results, strict=True)]

    def get_result(self, result_id: str) -> Any:
        """Return the result as it is now.

        Raises:
            TaskResultDoesNotExist: the framework's exception; there is no such result, or it is no longer kept.
        """
        from django_delayed_tasks.function_tasks import data, results

        life = self._known(result_id)
        if life is not None:
            return results.result_of(self._function(result_id, life.biz_code, life.enqueued), str(result_id), life)
        success = self._success(result_id)
        function = self._function(result_id, success.biz_code, data.of_code(success.biz_code))
        return results.purged_result(function, success)

    def enqueue_again(self, result_id: str) -> Any:
        """Enqueue the function of an earlier result with the same arguments, to be run at once; return the new result.

        Raises:
            TaskResultDoesNotExist: as for :meth:`get_result`.
            TaskExists: the task has a business identity, and waits or runs.
        """
        from django_delayed_tasks.function_tasks import enqueuing

        life = self._life(result_id)
        return enqueuing.enqueue_again(life.biz_code, life.enqueued)

    def cancel(self, result_id: str) -> CancelResult:
        """Cancel the task of a result: it becomes FAILED, unless it is running, which only asks the run to stop.

        Return MISSING if it has ended.

        Raises:
            TaskResultDoesNotExist: as for :meth:`get_result`.
        """
        from django_delayed_tasks.store.schedules import verbs

        life = self._life(result_id)
        if life.task is None or life.task.status == TaskStatus.FAILED:
            return CancelResult.MISSING
        return verbs.cancel(settings.DATABASE, life.biz_code, life.biz_num)

    async def acancel(self, result_id: str) -> CancelResult:
        """See :meth:`cancel`."""
        return await sync_to_async(self.cancel, thread_sensitive=True)(result_id)

    def wait(self, result_id: str, timeout: float | timedelta | None = None) -> Any:
        """Wait until the result is finished, looking at the database every half second, and return it.

        ``timeout`` is in seconds; None for no limit. Not for use inside a transaction, or in an async function.

        Raises:
            TimeoutError: the result is not finished yet.
            TaskResultDoesNotExist: as for :meth:`get_result`.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        deadline = None if seconds is None else clock.monotonic() + seconds
        pause = 0.01
        while not (result := self.get_result(result_id)).is_finished:
            if deadline is not None and clock.monotonic() >= deadline:
                raise TimeoutError(f"{result_id} is still {result.status} after {seconds:g} s")
            left = pause if deadline is None else min(pause, max(0.0, deadline - clock.monotonic()))
            time.sleep(left)
            pause = min(2 * pause, 0.5)
        return result

    def check(self, **kwargs: Any) -> list[Any]:
        """Return E028, E024 or W024: this app is not installed, an option or a queue is invalid, or of no function."""
        from django.apps import apps
        from django.core.checks import Error, Warning

        from django_delayed_tasks.function_tasks.options import paths_of_nothing, problems_of

        if not apps.is_installed("django_delayed_tasks"):
            missing = f"TASKS[{self.alias!r}]['BACKEND'] needs the app django_delayed_tasks, which is not installed."
            hint = "Add 'django_delayed_tasks' to INSTALLED_APPS, and run `manage.py migrate`."
            return [Error(missing, hint=hint, id="django_delayed_tasks.E028")]
        where = f"TASKS[{self.alias!r}]['OPTIONS']"
        errors = [f"{where}: {problem}" for problem in problems_of(self.options)]
        for name in sorted(self.queues, key=str):
            try:
                queue_name(name)
            except ValueError as error:
                errors.append(f"TASKS[{self.alias!r}]['QUEUES']: {shortened(name)}: {error}")
        if errors:
            return [Error(error, id="django_delayed_tasks.E024") for error in errors]
        hint = "These options apply to no function. Is the path spelled right?"
        return [
            Warning(f"{where}['functions']: {problem}.", hint=hint, id="django_delayed_tasks.W024")
            for problem in paths_of_nothing(self.options)
        ]

    def _order(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        from django_delayed_tasks.function_tasks import enqueuing

        self.validate_task(task)
        return enqueuing.order_of(handlers.registered(task, self.options), task, args, kwargs)

    def _enqueue(self, order: Any) -> Any:
        from django_delayed_tasks.function_tasks import enqueuing

        return enqueuing.enqueue(settings.DATABASE, order, self._announce) or self._filtered(order)

    def _announce(self, result: Any) -> None:
        family_of(result.task).signals.task_enqueued.send(sender=type(self), task_result=result)

    def _filtered(self, order: Any) -> Any:
        from django_delayed_tasks.function_tasks import enqueuing, history, ids, results

        code, num = order.schedule[:2]
        key = enqueuing.key_of_success(settings.DATABASE, code, num)
        if key is not None:
            return self.get_result(ids.id_of(key, num))
        success = history.read_success(settings.DATABASE, biz_code=code, biz_num=num)
        if success is None:  # it was forgotten meanwhile
            return self._enqueue(order)
        return results.purged_result(handlers.registered(order.task, self.options).task, success)

    def _success(self, result_id: Any) -> Any:
        """Return the record of what was done once, of which only that is known any more."""
        from django_delayed_tasks.function_tasks import history, ids

        key = ids.key_of(result_id)
        success = None if key is None else history.read_success(settings.DATABASE, pk=key)
        if key is None or success is None or ids.id_of_success(key, success.biz_num) != str(result_id):
            self._refuse(result_id)
        return success

    def _function(self, result_id: Any, biz_code: str, enqueued: Any) -> Any:
        """Return the task of a result's function, as its decorator made it."""
        handler = handlers.handler_of(biz_code, enqueued)
        if handler is None:
            raise self.family.result_does_not_exist(f"{result_id}: {enqueued.function} is no task function here")
        return handler.task

    def _life(self, result_id: Any) -> Any:
        life = self._known(result_id)
        if life is None:
            self._refuse(result_id)
        return life

    def _known(self, result_id: Any) -> Any:
        """Return all that is known of a result's task; None if there is no such task, or none of it is kept."""
        from django_delayed_tasks.function_tasks import history, ids

        key = ids.key_of(result_id)
        life = None if key is None else history.read_life(settings.DATABASE, key)
        return life if key is not None and life and ids.id_of(key, life.biz_num) == str(result_id) else None

    def _refuse(self, result_id: Any) -> NoReturn:
        raise self.family.result_does_not_exist(str(result_id))


def _without_timedelta(task: Any) -> Any:
    """Return a task for the framework to validate, without a ``run_after`` that is counted from the enqueuing."""
    if not isinstance(task.run_after, timedelta):
        return task
    names = ("func", "priority", "backend", "queue_name", "takes_context")
    return SimpleNamespace(run_after=None, **{name: getattr(task, name) for name in names})


def _forget_options(*, setting: str, **_: Any) -> None:
    if setting == "TASKS":
        handlers.forget_all()


setting_changed.connect(_forget_options, dispatch_uid="django_delayed_tasks.backends.tasks")

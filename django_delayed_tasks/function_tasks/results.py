"""Results as the framework defines them, made from what the database knows of a task."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django_delayed_tasks.function_tasks import data
from django_delayed_tasks.function_tasks.families import Family, family_of
from django_delayed_tasks.function_tasks.history import Attempt, Life
from django_delayed_tasks.function_tasks.ids import id_of_success
from django_delayed_tasks.function_tasks.task_class import changed
from django_delayed_tasks.models import Success
from django_delayed_tasks.states import RunOutcome


def new_result(task: Any, result_id: str, enqueued: data.EnqueuedCall) -> Any:
    """Return the result of a task that has just been enqueued."""
    family = family_of(task)
    return _result(family, task, result_id, enqueued, "READY")


def result_of(task: Any, result_id: str, life: Life) -> Any:
    """Return the result of a task; ``task`` is its function as its decorator made it."""
    family, enqueued, last = family_of(task), life.enqueued, life.last
    is_over = not life.is_running and not life.is_waiting
    is_good = is_over and last is not None and last.outcome == RunOutcome.DONE
    status = "RUNNING" if life.is_running else "READY" if not is_over else "SUCCESSFUL" if is_good else "FAILED"
    return _result(
        family,
        changed(task, **life.enqueued.using),
        result_id,
        enqueued,
        status,
        life.attempts,
        errors_of(family, life.errors),
        life.finished if is_over else None,
        last.result if is_good and last else None,
    )


def purged_result(task: Any, success: Success) -> Any:
    """Return the result of what was done once, when no more is known of it; ``task`` as in :func:`result_of`."""
    task = changed(task, biz_num=success.biz_num, once=True)
    return _result(
        family_of(task),
        task,
        id_of_success(success.pk, success.biz_num),
        data.of_code(success.biz_code),
        "SUCCESSFUL",
        finished=success.succeeded_at,
        is_purged=True,
    )


def running_result(task: Any, result_id: str, life: Life, now: datetime, worker: str) -> Any:
    """Return the result of a task whose run by ``worker`` starts now; ``life`` is what was before."""
    family = family_of(task)
    attempts = [*life.attempts, Attempt(worker, now)]
    errors = errors_of(family, life.errors)
    return _result(family, changed(task, **life.enqueued.using), result_id, life.enqueued, "RUNNING", attempts, errors)


def _result(
    family: Family,
    task: Any,
    result_id: str,
    enqueued: data.EnqueuedCall,
    status: str,
    attempts: Sequence[Attempt] = (),
    errors: Sequence[Any] = (),
    finished: datetime | None = None,
    value: Any = None,
    is_purged: bool = False,
) -> Any:
    starts = [attempt.started for attempt in attempts if attempt.started]
    result = (family.purged_result if is_purged else family.result_class)(
        task=task,
        id=result_id,
        status=family.base.TaskResultStatus[status],
        enqueued_at=enqueued.enqueued_at,
        started_at=starts[0] if starts else None,
        last_attempted_at=starts[-1] if starts else None,
        finished_at=finished,
        args=enqueued.args,
        kwargs=enqueued.kwargs,
        backend=task.backend,
        errors=list(errors),
        worker_ids=[attempt.worker for attempt in attempts],
    )
    if value is not None:
        change(result, _return_value=value)
    return result


def change(result: Any, **values: Any) -> None:
    """Set attributes of a result, whose class is frozen."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def errors_of(family: Family, errors: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the errors of a result, made from paths of exceptions and tracebacks."""
    return [family.error_class(exception_class_path=path, traceback=text) for path, text in errors]

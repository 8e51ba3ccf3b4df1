"""Celery: handing its messages on to functions of django.tasks, when a project leaves it.

Celery is imported when it is used: the documentation names this module where Celery is not installed.
"""

import logging
import time
from typing import Any, Final, NoReturn

from django_delayed_tasks.importers.moving import NotMoved, in_json

logger = logging.getLogger("django_delayed_tasks.celery")
PAUSE: Final = 60
"""The seconds until a message that was kept is tried again."""
CANVAS: Final = {"chain": "chain", "chord": "chord", "callbacks": "link", "errbacks": "link_error"}
"""The headers that name messages to follow this one. Celery would send these although the function has not run."""


def hand_on(function: Any, name: str | None = None) -> Any:
    """Make the Celery task that hands on the messages of a name, by default the function's path; return it.

    Each message becomes a task when its time has come. The log says what is different, or why a message was kept: it
    stays in the broker, and is tried again after a minute.
    """

    from celery import current_task, shared_task

    def take(*args: Any, **kwargs: Any) -> str:
        try:
            return _enqueue(function, current_task.request, args, kwargs)
        except Exception as error:  # such as arguments that are no JSON, or a database that is away
            _keep(current_task, error)

    return shared_task(
        name=name or function.module_path,
        acks_late=True,
        reject_on_worker_lost=True,
        acks_on_failure_or_timeout=False,  # a message that a time limit interrupted comes again
        max_retries=None,
        typing=False,
    )(take)


def _enqueue(function: Any, request: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Enqueue what a message calls, under the message's id: one that is delivered again replaces its task.

    Raises:
        NotMoved: other messages depend on it.
    """
    from celery.utils.time import maybe_iso8601, maybe_make_aware

    if follow := [words for name, words in CANVAS.items() if getattr(request, name, None)]:
        raise NotMoved(f"others depend on it ({', '.join(follow)}): let Celery run its function")
    expires = request.expires and maybe_make_aware(maybe_iso8601(request.expires))
    plain_args, plain_kwargs = in_json(list(args)), in_json(kwargs)
    result = function.using(biz_num=request.id, expires=expires or None).enqueue(*plain_args, **plain_kwargs)
    delivery = request.delivery_info or {}
    changes = [f"its priority {delivery['priority']} is not kept"] if delivery.get("priority") else []
    if (plain_args, plain_kwargs) != (list(args), kwargs):
        changes.append("arguments that JSON does not have became text")
    level = logging.WARNING if changes else logging.INFO
    logger.log(level, "%s is handed on as %s. %s", _words(request), result.id, "; ".join(changes))
    return str(result.id)


def _words(request: Any) -> str:
    return f"Message {request.id!r} of {request.task!r}, queue {(request.delivery_info or {}).get('routing_key')!r},"


def _keep(task: Any, error: Exception) -> NoReturn:
    """Send the message again, to be delivered later; if that fails, give it back to the broker."""
    from celery.exceptions import Reject

    logger.warning("%s is kept in the broker, and tried again in %s s: %r", _words(task.request), PAUSE, error)
    try:
        raise task.retry(exc=error, countdown=PAUSE)
    except Reject:
        time.sleep(1)  # the broker delivers it again at once
        raise Reject(error, requeue=True) from error

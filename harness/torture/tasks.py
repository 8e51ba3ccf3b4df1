"""Functions of Django's Tasks framework under torture: they write what handlers write into the same ledger."""

from typing import TYPE_CHECKING, Any

import django
from asgiref.sync import sync_to_async

from django_delayed_tasks import task_options
from harness.torture.observing import observe
from harness.torture.texts import text_of_claim

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


def delay(exception: BaseException, task_result: Any) -> float:
    """Return seconds, as the handlers' back-off does: attempts are lost to outages through no fault of the function."""
    return float(min(2.0, 0.05 * 2 ** min(task_result.attempts, 10)))


@task(takes_context=True)
@task_options(max_attempts=1000, backoff=delay)
def function(context: Any) -> dict[str, Any]:
    observe("begin", context.task)
    observe("effect", context.task)
    return of_claim(context.task)


@task(takes_context=True)
@task_options(max_attempts=1000, backoff=delay)
async def coroutine(context: Any) -> dict[str, Any]:
    await sync_to_async(observe)("begin", context.task)
    await sync_to_async(observe)("effect", context.task)
    return of_claim(context.task)


@task(takes_context=True)
@task_options(max_attempts=1000, backoff=delay, atomic=True)
def atomic_function(context: Any) -> dict[str, Any]:
    observe("effect", context.task)
    return of_claim(context.task)


def of_claim(claimed: Any) -> dict[str, Any]:
    """Return the claim that did it: the history must keep it for this claim and no other."""
    return {"claim": claimed.version, "text": text_of_claim(claimed.id, claimed.version)}

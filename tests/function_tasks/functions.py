"""Task functions for tests."""

import asyncio
import threading
from datetime import timedelta
from threading import Event
from typing import Any

from django_delayed_tasks import Cron, periodic, task_options
from tests.function_tasks.framework import task

calls: list[Any] = []
seen: list[Any] = []
started = Event()
may_end = Event()
WHOLE: Any = 5.0


@task
def add_up(*numbers: int, start: int = 0) -> int:
    return sum(numbers, start)


@task(takes_context=True)
def describe(context: Any) -> list[Any]:
    context.progress(0.5, "half")
    return [context.task_result.id, context.attempt, context.cancel_requested, context.fencing_token]


@task(takes_context=True)
async def describe_later(context: Any) -> list[Any]:
    await context.acheck_claim()
    return [context.attempt, await context.acancel_requested()]


@task(priority=WHOLE)
def whole() -> None:
    """Have a priority that is a whole number, but no int."""


@task
async def double(number: int) -> int:
    return 2 * number


@task
async def meet(parties: int) -> int:
    """Return when this many of them run."""
    calls.append(threading.get_ident())
    while len(calls) < parties:
        await asyncio.sleep(0.01)
    return parties


@task
async def fail_later(message: str) -> None:
    await asyncio.sleep(0)
    raise ValueError(message)


@task
def fail(message: str) -> None:
    raise ValueError(message)


@task
def give(value: Any) -> Any:
    calls.append(value)
    return value


@task(takes_context=True)
def fail_with(context: Any, *args: Any, **kwargs: Any) -> None:
    del args, kwargs  # so that the context is the only local variable of this frame
    raise ValueError("with a context")


@task(takes_context=True)
async def fail_with_later(context: Any, *args: Any, **kwargs: Any) -> None:
    del args, kwargs
    raise ValueError("with a context")


def delay(exception: BaseException, task_result: Any) -> float | None:
    """No wait, and no further attempt after a KeyError."""
    seen.append((type(exception), task_result.attempts, len(task_result.errors)))
    return None if isinstance(exception, KeyError) else 0.0


@task(takes_context=True)
@task_options(max_attempts=3, backoff=delay)
def fail_until(context: Any, attempt: int, error: str = "ValueError") -> int:
    if context.attempt < attempt:
        raise {"ValueError": ValueError, "KeyError": KeyError}[error](f"attempt {context.attempt}")
    result: int = context.attempt
    return result


@task
@task_options(timeout=0.1)
def hang() -> None:
    may_end.wait(30)


@task
def wait_until_told() -> str:
    started.set()
    may_end.wait(30)
    return "told"


@task_options(atomic=True)
@task
def write_then_fail(name: str) -> None:
    from django.contrib.auth.models import Group

    Group.objects.create(name=name)
    raise ValueError("after writing")


@task
@task_options(max_concurrent=1, concurrency_key=lambda customer, **_: str(customer))
def serve(customer: str, note: str = "") -> None:
    calls.append((customer, note))


@task
@task_options(expires=timedelta(hours=1))
def soon() -> None:
    calls.append("soon")


@periodic(Cron("0 3 * * *"))
@task
def nightly() -> None:
    calls.append("nightly")


@task
def a_function_whose_name_is_longer_than_a_code_may_be() -> str:
    return "long"


plain = fail.func


to_do: Any = None


@task
def return_it() -> Any:
    return to_do()


@task
@task_options(atomic=True)
def write(name: str) -> str:
    from django.contrib.auth.models import Group

    Group.objects.create(name=name)
    return name


@task
@task_options(atomic=True, max_attempts=2, backoff=delay)
def act() -> Any:
    return to_do()


@task(takes_context=True)
@task_options(atomic=True)
def act_in_context(context: Any) -> Any:
    return [context.task_result.id, context.attempt, to_do()]


@task
def take_names(function: str, task: str, args: str) -> list[str]:
    return [function, task, args]


@task
async def wait_on_the_loop() -> str:
    started.set()
    while not may_end.is_set():
        await asyncio.sleep(0.01)
    return "told"

"""The base class of all handlers."""

import random
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from asgiref.sync import iscoroutinefunction

from django_delayed_tasks.conf import as_seconds, boolean, number, or_none, seconds, text
from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import attributes
from django_delayed_tasks.handlers.scheduling import Scheduling
from django_delayed_tasks.outcomes import Outcome
from django_delayed_tasks.states import BizNum, KeepHistory
from django_delayed_tasks.triggers import Trigger, parse

if TYPE_CHECKING:
    from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

HandleResult = Outcome | datetime | timedelta | None
"""The values that ``handle`` may return."""
BatchResult = Sequence[HandleResult | Exception] | None
"""The values that ``handle_batch`` may return."""


def exponential(
    attempt: int,
    base: timedelta = timedelta(seconds=1),
    cap: timedelta = timedelta(hours=1),
    jitter: float = 0.5,
) -> timedelta:
    """Return the wait after attempt number ``attempt`` (from 1): ``base`` doubled each time, at most ``cap``.

    ``jitter`` is the part of the wait that is random: 0 is none, 0.5 is "equal jitter" and 1 "full jitter" in the
    terms of Marc Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). It keeps tasks that failed
    together from coming back together. The default leaves half of the wait fixed, so that the service that
    failed has time to recover.

    Raises:
        ValueError: ``base`` is not above zero, ``cap`` is below ``base``, or ``jitter`` is outside 0..1.
    """
    if not timedelta(0) < base <= cap:
        raise ValueError(f"expected 0 < base <= cap, not base={base!r}, cap={cap!r}")
    if not 0 <= jitter <= 1:
        raise ValueError(f"expected a jitter from 0 to 1, not {jitter!r}")
    unit = timedelta.resolution
    doublings = min(max(attempt, 1) - 1, (cap // unit).bit_length())
    longest = min(cap // unit, (base // unit) << doublings)
    return longest * unit - int(longest * jitter * random.random()) * unit


class TaskHandler(Scheduling):
    """Does the work of all tasks of one code.

    One instance serves all threads: keep no state of a run on ``self``.

    Attributes:
        biz_code: names the kind of task, 1 to 50 characters; or override :meth:`get_biz_code`.
        queue: the queue of tasks that name none themselves, 1 to 50 characters.
        priority: the priority of tasks that have none themselves, from -100 to 100, higher first.
        max_attempts: how many runs may end in an exception or ``Retry`` before the task is FAILED; at least 1.
        timeout: how long one run may take, in seconds or as a timedelta; None for no limit.
        keep_history: which runs leave a row in the history: "all", "failures" or "none"; or a timedelta: all of
            them, for that long.
        keep_data: whether the history keeps the data of a task that has ended; None: of a run that failed, if it is
            at most a kilobyte.
        log: whether the log gets a line at INFO for each run that is done; failed runs are always logged.
        max_lateness: how long after its time a run may still start, in seconds or as a timedelta; None for no limit.
        trigger: a trigger or its text: makes a task of this code recur, which exists as long as the handler does.
        atomic: whether ``handle`` and the settlement of its run are one transaction on the tasks' database.
        database: alias of the database that an atomic handler writes to; a check compares it with the tasks'.
        pool: the pool that each run needs a resource of; the run finds it at ``task.resource``.
        max_concurrent: how many tasks of this code may run at the same time in the whole cluster, 1 to 1000; per
            :meth:`concurrency_key` if the handler has one.
        rate: how many runs may start per period in the whole cluster, such as "100/m" or "5/10s"; per
            :meth:`concurrency_key` if the handler has one.
        batch_size: how many tasks :meth:`handle_batch` gets at most, 1 to 10,000.
    """

    biz_code: str = ""
    queue: Annotated[str, attributes.queue_name] = "default"
    priority: Annotated[int, number(-100, 100)] = 0
    max_attempts: Annotated[int, number(1)] = 5
    timeout: Annotated[timedelta | float | None, or_none(seconds())] = None
    keep_history: Annotated[KeepHistory | timedelta | str, attributes.history_kept] = KeepHistory.ALL
    keep_data: Annotated[bool | None, or_none(boolean)] = None
    log: Annotated[bool, boolean] = False
    max_lateness: Annotated[timedelta | float | None, or_none(seconds())] = None
    trigger: Annotated[Trigger | str | None, attributes.trigger] = None
    atomic: Annotated[bool, boolean] = False
    database: Annotated[str, text] = "default"
    pool: Annotated[str | None, or_none(attributes.pool)] = None
    max_concurrent: Annotated[int | None, or_none(number(1, 1000))] = None
    rate: Annotated[str | None, or_none(attributes.parse_rate)] = None
    batch_size: Annotated[int, number(1, 10_000)] = 500

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let each handler read an option that is a property once: when it is registered, which reads them all."""
        super().__init_subclass__(**arguments)
        for name in TaskHandler.__annotations__:
            if isinstance(option := getattr(cls, name), property) and option.fget:
                once = cached_property(option.fget)
                once.__set_name__(cls, name)
                setattr(cls, name, once)

    def get_biz_code(self) -> str:
        """Return the code of the tasks that this handler runs."""
        return self.biz_code

    def handle(self, task: "ClaimedTask") -> HandleResult | Awaitable[HandleResult]:
        """Do the work of one task; an ``async def`` runs on the executor's event loop and takes no thread.

        ``task`` has ``biz_code``, ``biz_num``, ``biz_ext``, ``when``, ``attempts`` (including this one),
        ``cancel_requested``, ``fencing_token``, ``check_claim()`` and ``progress(fraction, note)``. Return None if the
        task is done, a datetime or timedelta to run it again then, or an outcome. An exception leads to another
        attempt after :meth:`backoff`, until ``max_attempts`` are used up.

        The handler must be idempotent: a task may run twice, for example if its executor dies.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no handle()")

    def handle_batch(self, tasks: list["ClaimedTask"]) -> BatchResult | Awaitable[BatchResult]:
        """Do the work of several tasks of this code in one call; replaces :meth:`handle`, and may be async, too.

        ``tasks`` are the due tasks, at least one and at most ``batch_size``. Return None if all are done, or a list
        with one outcome for each task, in the same order: a value that ``handle`` may return, or an exception, which
        counts as if ``handle`` had raised it.

        If the call raises, an atomic handler's changes are rolled back, and each task is run again in a call of its
        own, so that one task that fails does not block the others. ``timeout`` applies to one call.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no handle_batch()")

    def backoff(self, attempt: int) -> timedelta:
        """Return how long to wait after failed attempt number ``attempt`` (from 1)."""
        return exponential(attempt)

    def backoff_after(self, task: "ClaimedTask", exception: BaseException) -> timedelta | None:
        """Return how long to wait after an attempt of ``task`` that ended in ``exception``; None: it is not retried.

        By default, this is :meth:`backoff` of the attempt, whatever the exception.
        """
        return self.backoff(task.attempts)

    def on_failed(self, task: Any, error: str) -> None:
        """React to the failure of ``task``, which will not be retried.

        ``error`` is the last traceback, or the reason that the handler gave. An override that has a third argument,
        ``exception=None``, gets the exception object as well. This is called after the task has become
        FAILED and that is committed, also after a timeout and after too many rescues. It runs in a thread of its own,
        or in the run's thread if the handler is atomic. An exception that it raises is only logged. If the process ends
        before or during the call, it is not called again.
        """

    def _before_transaction(self, task: "ClaimedTask") -> None:
        """Do what comes before the transaction of an atomic run."""

    def _after_commit(self, task: "ClaimedTask", settlement: Any) -> None:
        """Do what follows the commit of an atomic run."""

    def concurrency_key(self, task: Any) -> BizNum | None:
        """Return the key that ``max_concurrent`` and ``rate`` are counted by, such as a customer or a host.

        None counts all tasks of this code together.
        """
        return None

    @classmethod
    def _own_code(cls) -> str:
        return code_of(cls)

    @property
    def longest_lateness(self) -> timedelta | None:
        """``max_lateness`` as a timedelta; None for no limit."""
        return None if self.max_lateness is None else timedelta(seconds=as_seconds(self.max_lateness))

    @property
    def history_period(self) -> timedelta | None:
        """The time for which a run stays in the history; None if the handler leaves that to ``KEEP_HISTORY``."""
        return self.keep_history if isinstance(self.keep_history, timedelta) else None

    @property
    def recurs_by(self) -> Trigger | None:
        """``trigger`` as a Trigger; None if no task of this code recurs by its handler."""
        return parse(self.trigger) if isinstance(self.trigger, str) else self.trigger

    @property
    def is_batched(self) -> bool:
        """Whether the handler takes several tasks in one call."""
        return type(self).handle_batch is not TaskHandler.handle_batch

    @property
    def is_async(self) -> bool:
        """Whether the handler runs on the event loop."""
        return iscoroutinefunction(self.handle_batch if self.is_batched else self.handle)

    @property
    def is_keyed(self) -> bool:
        """Whether the handler counts its runs by a key."""
        return type(self).concurrency_key is not TaskHandler.concurrency_key

    @property
    def is_limited(self) -> bool:
        """Whether a run of this handler may have to wait for another run."""
        return bool(self.pool or self.max_concurrent or self.rate)

    @property
    def timeout_seconds(self) -> float | None:
        """``timeout`` in seconds; None for no limit."""
        return None if self.timeout is None else as_seconds(self.timeout)


def code_of(handler_class: type[TaskHandler]) -> str:
    """Return the code of a handler class.

    Raises:
        InvalidHandler: only instances of the class have a code.
    """
    if handler_class.get_biz_code is TaskHandler.get_biz_code:
        code = handler_class.biz_code
    else:
        code = built(handler_class).get_biz_code()
    if not code:
        name = handler_class.__qualname__
        raise InvalidHandler(
            f"{name} has no biz_code of its own: use add_task(Task(biz_code=…, biz_num=…)) and the like"
        )
    return code


def built(handler_class: type[TaskHandler]) -> TaskHandler:
    """Return an instance of the class, whose constructor must need no arguments."""
    try:
        return handler_class()
    except TypeError as error:
        name = f"{handler_class.__module__}.{handler_class.__qualname__}"
        problem = f"{name} cannot be instantiated without arguments ({error}): register an instance"
        raise InvalidHandler(problem) from error

"""Faults that a test plans for the next run of a code, to see what its handler makes of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

from django.db import connections

from django_delayed_tasks.conf import settings
from django_delayed_tasks.executor.running.deciding import GivenBack
from django_delayed_tasks.handlers import TaskHandler, find
from django_delayed_tasks.handlers.functions import Code, code_named
from django_delayed_tasks.store.acceptance import unknown

Call = Callable[[Any], Any]
"""The call of a handler with a task, or with the tasks of a batch."""


class Crashed(GivenBack):
    """Ends a run whose executor dies; nothing that follows a failure is called."""


class Fault:
    """A fault that is planned for the next run of a code.

    As a context manager it is planned for the block, and raises AssertionError at the end if no run met it. Otherwise
    it stays until a run meets it, or the test ends whose transaction is open.
    """

    def __init__(self, biz_code: str, error: BaseException | None = None) -> None:
        self.biz_code = biz_code
        self._error = error
        self._plans = _plans()
        self._plans.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        was_met = self not in self._plans
        with suppress(ValueError):
            self._plans.remove(self)
        if not was_met and error is None:
            raise AssertionError(f"no run of {self.biz_code!r} has met the planned {type(self).__name__.lower()}")

    def call(self, original: Callable[[Any], Any], argument: Any) -> Any:
        """Call the handler as a run that meets this fault does."""
        return original(argument)

    async def acall(self, original: Callable[[Any], Any], argument: Any) -> Any:
        """Like :meth:`call`, for an async handler."""
        return await original(argument)


class Failure(Fault):
    """The run raises, before its handler is called."""

    def call(self, original: Callable[[Any], Any], argument: Any) -> Any:
        assert self._error is not None
        raise self._error

    async def acall(self, original: Callable[[Any], Any], argument: Any) -> Any:
        self.call(original, argument)


class Crash(Fault):
    """The executor dies when the handler has returned, before the end of its run is written."""

    def call(self, original: Callable[[Any], Any], argument: Any) -> Any:
        original(argument)
        raise Crashed

    async def acall(self, original: Callable[[Any], Any], argument: Any) -> Any:
        await original(argument)
        raise Crashed


class LostClaim(Fault):
    """Another executor takes the task when the run starts, as if this one had been paused for too long."""


def fail_next(code: Code, error: BaseException | type[BaseException]) -> Fault:
    """Let the next run of this code raise ``error`` in place of calling its handler.

    Raises:
        UnknownCode: no handler has this code.
        TypeError: ``error`` is neither an exception nor a class of exceptions.
    """
    raised = error() if isinstance(error, type) else error
    if not isinstance(raised, BaseException):
        raise TypeError(f"fail_next needs an exception, such as ConnectionError('no route'), not {error!r}")
    return Failure(_known(code), raised)


def crash_next(code: Code) -> Fault:
    """Let the executor die in the next run of this code, when the handler has returned: the task is run again.

    What an atomic handler wrote is rolled back; the effects of any other happen twice.

    Raises:
        UnknownCode: no handler has this code.
    """
    return Crash(_known(code))


def lose_claim_next(code: Code) -> Fault:
    """Let the next run of this code lose its claim as it starts; the task is run again.

    ``check_claim()`` raises ClaimLost in that run, and what an atomic handler writes is rolled back.

    Raises:
        UnknownCode: no handler has this code.
    """
    return LostClaim(_known(code))


def _known(code: Code) -> str:
    """Return the code of a handler: no run would ever meet a fault of any other."""
    name = code_named(code)
    if find(name) is None:
        raise unknown(name)
    return name


def take_fault(biz_code: str) -> Fault | None:
    """Return the fault that the next run of this code meets, which is no longer planned; None if it meets none."""
    plans = _plans()
    for fault in plans:
        if fault.biz_code == biz_code:
            plans.remove(fault)
            return fault
    return None


def forget_faults() -> list[str]:
    """Forget the faults that no run has met; return their codes."""
    plans = _plans()
    codes = [fault.biz_code for fault in plans]
    plans.clear()
    return codes


_of_tests: WeakKeyDictionary[Any, list[Fault]] = WeakKeyDictionary()
"""The planned faults, by the transaction of the TestCase that planned them: they are forgotten with it."""
_others: list[Fault] = []


def _plans() -> list[Fault]:
    connection = connections[settings.DATABASE]
    of_test = [block for block in connection.atomic_blocks if getattr(block, "_from_testcase", False)]
    return _of_tests.setdefault(of_test[-1], []) if of_test else _others


@contextmanager
def meeting(fault: Fault | None, handler: TaskHandler | None) -> Iterator[None]:
    """Let calls of the handler within the block meet this fault."""
    if fault is None or handler is None:
        yield
        return
    with calling(handler, partial(_in_the_way_of, fault, handler.is_async)):
        yield


@contextmanager
def calling(handler: TaskHandler, around: Callable[[Call], Call]) -> Iterator[None]:
    """Let ``around(original)`` be called in place of the handler within the block."""
    name = "handle_batch" if handler.is_batched else "handle"
    original, own = getattr(handler, name), vars(handler).get(name)
    setattr(handler, name, around(original))
    try:
        yield
    finally:
        vars(handler).pop(name)
        if own is not None:
            setattr(handler, name, own)


def _in_the_way_of(fault: Fault, is_async: bool, original: Call) -> Call:
    def call(argument: Any) -> Any:
        return fault.call(original, argument)

    async def acall(argument: Any) -> Any:
        return await fault.acall(original, argument)

    return acall if is_async else call

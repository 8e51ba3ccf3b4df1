"""A decorated function gets the lease if it takes one, and so the state that the last run left."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.leases import MutexLease, ResourceUnavailable, mutex
from tests.leases.rows import force, later
from tests.leases.test_mutex import row
from tests.store.verbs import NOW

pytestmark = pytest.mark.usefixtures("live_db")


class Job:
    def method(self, lease: Any, *rest: Any, **named: Any) -> Any:
        return lease, *rest, *named.values()


def first(lease: Any, count: int = 0) -> Any:
    return lease, count


def last(count: int = 0, lease: Any = None) -> Any:
    return lease, count


def by_name(*counts: int, lease: Any) -> Any:
    return lease, *counts


def by_place(lease: Any, /, count: int = 0) -> Any:
    return lease, count


def method(*counts: int, **named: int) -> Any:
    kind: Any = type("Other", (Job,), {"method": mutex("index")(Job.method)})
    return kind().method(*counts, **named)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if function is method else mutex("index")(function)


@pytest.mark.parametrize("function", [first, last, by_name, by_place, method])
def test_it_gets_the_lease(function: Callable[..., Any]) -> None:
    job = decorated(function)
    lease, count = job(7)
    assert isinstance(lease, MutexLease)
    assert (lease.name, lease.token, count) == ("index", row().version, 7)
    again, _ = job(7)
    assert again.token == lease.token + 1


@pytest.mark.parametrize("function", [first, last, by_place, method])
def test_with_arguments_by_name(function: Callable[..., Any]) -> None:
    lease, count = decorated(function)(count=7)
    assert isinstance(lease, MutexLease)
    assert count == 7


def test_it_holds_the_lease_meanwhile() -> None:
    def job(lease: MutexLease) -> bool:
        lease.check()
        return lease.is_held

    run: Any = mutex("index")(job)
    assert run()
    assert row().holder == ""


def test_state_is_carried_from_run_to_run() -> None:
    def job(lease: MutexLease) -> int:
        lease.state["runs"] += 1
        return int(lease.state["runs"])

    run: Any = mutex("index", state={"runs": 10})(job)
    assert [run(), run(), run()] == [11, 12, 13]
    assert row().state == {"runs": 13}


def test_state_of_a_run_that_failed_or_was_short() -> None:
    def job(lease: MutexLease, fails: bool) -> None:
        lease.state["runs"] = lease.state.get("runs", 0) + 1
        lease.save_state()
        if fails:
            raise ZeroDivisionError

    told: list[object] = []
    run: Any = mutex("index", at_least=30, on_standby=lambda *holder: told.append(holder))(job)
    with clock.frozen_at(NOW):
        with pytest.raises(ZeroDivisionError):
            run(fails=True)
        with later(29):
            run(False)
        assert (row().state, len(told)) == ({"runs": 1}, 1)
        with later(30):
            run(False)
        assert row().state == {"runs": 2}


def test_a_run_that_lost_the_mutex_leaves_no_state() -> None:
    def job(lease: MutexLease) -> None:
        lease.state["x"] = 1
        force(lease)

    run: Any = mutex("index")(job)
    run()
    assert not row().state


def test_others_get_their_arguments_alone() -> None:
    def job(*lease: Any, **more: Any) -> Any:
        return lease, more

    def other(**lease: Any) -> Any:
        return lease

    assert mutex("index")(job)(1, x=2) == ((1,), {"x": 2})
    assert mutex("index")(other)(x=2) == {"x": 2}
    without_signature: Any = max
    assert mutex("index")(without_signature)(1, 2) == 2


def test_callers_do_not_pass_it() -> None:
    job: Any = mutex("index")(first)
    assert str(inspect.signature(job)) == "(count: int = 0) -> Any"
    with pytest.raises(TypeError, match="lease"):
        job(lease=1)
    with mutex("index"), pytest.raises(ResourceUnavailable):
        job()


def test_two_mutexes() -> None:
    """The inner one's lease is passed."""
    job: Any = mutex("outer")(mutex("inner")(first))
    lease, count = job(7)
    assert (lease.name, count) == ("inner", 7)


class Asynchronous:
    async def __call__(self) -> None: ...


async def coroutine() -> None: ...


async def asynchronous() -> Any:
    yield


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (coroutine, r"coroutine is an async function: .* use `async with mutex\(\.\.\.\)` inside it"),
        (functools.partial(coroutine), r"is an async function"),
        (Asynchronous(), r"is an async function"),
        (
            asynchronous,
            r"asynchronous is an async generator function: .* use `async with mutex\(\.\.\.\)` inside it",
        ),
        (generator, r"generator is a generator function: .* use `with mutex\(\.\.\.\)` inside it"),
    ],
)
def test_work_that_a_call_only_begins_is_refused(function: Any, message: str) -> None:
    """The mutex would be released before the work is done."""
    with pytest.raises(TypeError, match=message):
        mutex("index")(function)

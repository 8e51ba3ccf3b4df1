"""A ``Mutex`` object is used again, however it was left the last time."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks.exceptions import InvalidTask, TaskException
from django_delayed_tasks.leases import Mutex, Pool, ResourceUnavailable, mutex
from tests.leases.rows import force
from tests.threads import in_thread

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def cannot_be_had(guard: Mutex) -> None:
    with mutex("index"), pytest.raises(ResourceUnavailable):
        guard.__enter__()


def cannot_be_had_in_time(guard: Mutex) -> None:
    guard.wait = 0.05
    with mutex("index"), pytest.raises(ResourceUnavailable):
        in_thread(guard.__enter__)


def in_a_transaction(guard: Mutex) -> None:
    with transaction.atomic(), pytest.raises(TaskException, match="inside a transaction"):
        guard.__enter__()


def callback_fails(guard: Mutex) -> None:
    guard.on_standby = lambda *holder: 1 / 0
    with mutex("index"), pytest.raises(ZeroDivisionError):
        guard.__enter__()


def block_fails(guard: Mutex) -> None:
    with pytest.raises(ZeroDivisionError), guard:
        _ = 1 / 0


def state_cannot_be_saved(guard: Mutex) -> None:
    with pytest.raises(InvalidTask), guard as lease:
        lease.state = {1, 2}  # type: ignore[assignment]


def lost_within(guard: Mutex) -> None:
    with guard as lease:
        force(lease)
        lease.state["x"] = 1


LEFT: list[Callable[[Mutex], Any]] = [
    cannot_be_had, cannot_be_had_in_time, in_a_transaction, callback_fails, block_fails, state_cannot_be_saved,
    lost_within,
]  # fmt: skip


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__)
def test_it_can_be_had_afterwards(leave: Callable[[Mutex], Any]) -> None:
    guard = mutex("index")
    leave(guard)
    with guard as lease:
        lease.check()
    with mutex("index"):  # and was given back
        pass


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__)
def test_the_mutex_is_free_afterwards(leave: Callable[[Mutex], Any]) -> None:
    leave(mutex("index"))
    with mutex("index"):
        pass


def test_a_function_that_could_not_have_it_is_called_the_next_time() -> None:
    @mutex("index")
    def rebuild() -> int:
        return 7

    with mutex("index"), pytest.raises(ResourceUnavailable):
        rebuild()
    assert rebuild() == 7


def test_a_resource_is_not_replaced_in_a_transaction() -> None:
    """If that were rolled back, the broken resource would be lent again."""
    pool = Pool("proxies")
    for name in ("a", "b"):
        pool.add(name)
    with pool.lease(wait=0) as resource:
        with transaction.atomic(), pytest.raises(TaskException, match="inside a transaction"):
            resource.replace()
        assert (resource.name, resource.is_held) == ("a", True)
        resource.replace()
        assert resource.name == "b"

"""Resources of a pool that are refused or replaced: how long that takes, and what is left when the block ends first."""

from threading import Event

import pytest

from django_delayed_tasks.leases import LeasedResource, LeaseLost, Pool, ResourceUnavailable
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Waiter
from django_delayed_tasks.store.resources import resources
from tests.leases.rows import POOL, add, free_names, taken
from tests.store.verbs import ALIAS
from tests.threads import DatabaseThread, start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def refuse_slowly(resource: LeasedResource) -> bool:
    assert not Event().wait(0.5)
    return False


def test_what_refusing_takes_is_part_of_the_wait() -> None:
    """What is left of it after a resource was refused is all that the next one is waited for."""
    add("a")
    with pytest.raises(ResourceUnavailable) as caught:
        Pool(POOL).lease(wait=1, valid=refuse_slowly).__enter__()
    assert "within 1 s" not in str(caught.value)


def replaced_in_vain(pool: Pool, resource: LeasedResource) -> DatabaseThread[None]:
    """A thread that replaces the resource, and waits since there is no other one."""
    thread = start_thread(resource.replace)
    wait_until(Waiter.objects.exists)
    return thread


@pytest.mark.parametrize("valid", [None, lambda resource: True, lambda resource: False])
def test_what_another_thread_wins_after_the_end_is_given_back(valid: object) -> None:
    """No thread would do so later: the block that it was for has ended."""
    add("a", "b")
    others = taken("b", "you")
    with Pool(POOL).lease(wait=60) as resource:
        resource._valid = valid  # type: ignore[assignment]
        thread = replaced_in_vain(Pool(POOL), resource)
    assert resources.release(ALIAS, others)
    try:
        thread.result()
    except LeaseLost:
        assert valid
    assert not resource.is_held
    assert not renewer.leases()
    assert free_names() == ["b"]


def test_a_block_that_ends_while_nothing_is_held_ends_quietly() -> None:
    add("a")
    with Pool(POOL).lease(wait=0.05) as resource:
        with pytest.raises(ResourceUnavailable):
            resource.replace()
        assert not resource.is_held
    with pytest.raises(LeaseLost):
        resource.replace()
    assert not renewer.leases()

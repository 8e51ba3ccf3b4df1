"""What one holder of a mutex leaves to the next."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_delayed_tasks.clock import EPOCH
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.leases import LeaseLost, MutexLease, mutex
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import PausedQueue
from tests.leases.rows import force
from tests.leases.test_mutex import row
from tests.store.meters import statements

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def test_state_is_handed_on() -> None:
    with mutex("index", state={"at": 0}) as lease:
        assert lease.state == {"at": 0}
        lease.state["at"] = 5
    with mutex("index", state={"at": 0}) as lease:
        assert lease.state == {"at": 5}
        lease.state = {"at": 6, "ä": [None]}
        lease.save_state()
        assert row().state == {"at": 6, "ä": [None]}


def fail_on(number: int) -> None:
    raise ZeroDivisionError(number)


def test_after_an_exception_what_was_saved_counts() -> None:
    """The effects that the rest of the state stood for may have been rolled back."""
    with pytest.raises(ZeroDivisionError), mutex("index") as lease:
        lease.state["at"] = 6
        lease.save_state()
        lease.state["at"] = 7
        fail_on(7)
    assert row().state == {"at": 6}


def test_after_an_exception_of_a_function_what_was_saved_counts() -> None:
    @mutex("index")
    def read(lease: MutexLease) -> None:
        for number in range(1, 8):
            lease.state["at"] = number
            if number == 7:
                fail_on(7)
            lease.save_state()

    with pytest.raises(ZeroDivisionError):
        read()
    assert row().state == {"at": 6}


@pytest.mark.parametrize("saves", [False, True])
def test_an_effect_that_is_rolled_back_has_no_state(saves: bool) -> None:
    with pytest.raises(ZeroDivisionError), mutex("index") as lease, transaction.atomic():
        PausedQueue.objects.create(queue="7", paused_at=EPOCH)
        lease.state["at"] = 7
        if saves:
            lease.save_state()
        fail_on(7)
    assert row().state is None
    assert not PausedQueue.objects.exists()


def roll_back(act: Callable[[], None]) -> None:
    with suppress(ZeroDivisionError), transaction.atomic():
        act()
        fail_on(7)


def test_what_was_rolled_back_is_saved_when_the_effect_is_made_again() -> None:
    """If the process is killed after the second transaction, its effect and its state are both there."""
    with mutex("index") as lease:
        lease.state["at"] = 7
        roll_back(lease.save_state)
        with transaction.atomic():
            lease.save_state()
        assert row().state == {"at": 7}


def test_what_was_rolled_back_to_a_savepoint_is_saved_again() -> None:
    with mutex("index") as lease, transaction.atomic():
        lease.state["at"] = 7
        roll_back(lease.save_state)
        lease.save_state()
        assert row().state == {"at": 7}


def test_the_state_of_before_is_saved_over_one_of_the_same_transaction() -> None:
    with mutex("index", state={"at": 0}) as lease:
        with transaction.atomic():
            lease.state["at"] = 7
            lease.save_state()
            lease.state["at"] = 0
            lease.save_state()
        assert row().state == {"at": 0}


def test_what_is_saved_without_autocommit_may_be_rolled_back_too() -> None:
    with mutex("index") as lease:
        lease.state["at"] = 7
        transaction.set_autocommit(False)
        lease.save_state()
        transaction.rollback()
        transaction.set_autocommit(True)
        lease.save_state()
        assert row().state == {"at": 7}


def test_what_is_committed_is_written_once() -> None:
    with mutex("index") as lease:
        lease.state["at"] = 7
        lease.save_state()
        with statements() as sent:
            lease.save_state()
    assert sent == []


def test_the_first_state_is_each_holders_own() -> None:
    @mutex("index", state={"seen": []})
    def look() -> None:
        force(mutex_lease := next(lease for lease in renewer.leases() if isinstance(lease, MutexLease)))
        mutex_lease.state["seen"].append(1)
        found.append(mutex_lease.state)

    found: list[Any] = []
    look()
    look()
    assert found == [{"seen": [1]}] * 2


def test_a_state_from_where_more_is_allowed() -> None:
    """It is handed on, and raises no error until a holder changes it."""
    with mutex("index") as lease:
        lease.state = {"x": "y" * 100}
    with override_settings(DELAYED_TASKS={"MAX_BIZ_EXT_BYTES": 50}):
        with mutex("index") as lease:
            assert len(lease.state["x"]) == 100
        with pytest.raises(InvalidTask, match="state="), mutex("index") as lease:
            lease.state["z"] = 1
    with mutex("index") as lease:
        assert lease.state == {"x": "y" * 100}
    assert not renewer.leases()


def test_who_lost_it_leaves_no_state(caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index") as lease:
        lease.state["at"] = 1
        force(lease)
        with mutex("index") as other:
            other.state["at"] = 2
            with pytest.raises(LeaseLost, match="state was not saved"):
                lease.save_state()
    assert row().state == {"at": 2}


def test_who_lost_it_hears_of_it_with_the_same_state_too() -> None:
    with mutex("index") as lease:
        lease.save_state()
        force(lease)
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(LeaseLost):
            lease.save_state()


CIRCLE: dict[str, Any] = {}
CIRCLE["x"] = CIRCLE


@pytest.mark.parametrize("state", [{"x": object()}, {"x": float("nan")}, [1], {"x": "\0"}, CIRCLE])
def test_a_state_that_cannot_be_kept(state: Any) -> None:
    with pytest.raises(InvalidTask, match="state"), mutex("index") as lease:
        lease.state = state
    with mutex("index") as lease:
        assert lease.state == {}

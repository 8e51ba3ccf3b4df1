"""What one holder of a mutex leaves to the next."""

from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.leases import LeaseLost, MutexLease, mutex
from django_delayed_tasks.leases.renewer import renewer
from tests.leases.rows import force
from tests.leases.test_mutex import row

pytestmark = pytest.mark.usefixtures("live_db")


def test_state_is_handed_on() -> None:
    with mutex("index", state={"at": 0}) as lease:
        assert lease.state == {"at": 0}
        lease.state["at"] = 5
    with mutex("index", state={"at": 0}) as lease:
        assert lease.state == {"at": 5}
        lease.state = {"at": 6, "ä": [None]}
        lease.save_state()
        assert row().state == {"at": 6, "ä": [None]}
    with pytest.raises(ZeroDivisionError), mutex("index") as lease:
        lease.state["at"] = 7
        _ = 1 / 0
    with mutex("index") as lease:
        assert lease.state["at"] == 7


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


@pytest.mark.parametrize("state", [{"x": object()}, {"x": float("nan")}, [1], {"x": "\0"}])
def test_a_state_that_cannot_be_kept(state: Any) -> None:
    with pytest.raises(InvalidTask, match="state"), mutex("index") as lease:
        lease.state = state
    with mutex("index") as lease:
        assert lease.state == {}

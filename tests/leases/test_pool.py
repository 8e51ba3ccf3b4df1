"""Pools in one process."""

from threading import Event

import pytest

from django_delayed_tasks.leases import LeasedResource, LeaseLost, Pool, ResourceUnavailable, UnknownPool
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.store.resources import resources
from tests.leases.rows import POOL, free_names, later, row, taken
from tests.store.meters import statements
from tests.store.verbs import ALIAS
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


@pytest.fixture
def pool() -> Pool:
    pool = Pool(POOL)
    for name in ("a", "b", "c"):
        pool.add(name, {"address": f"{name}.example.org"})
    return pool


def test_each_is_held_by_one_at_a_time(pool: Pool) -> None:
    with pool.lease(wait=0) as first, pool.lease(wait=0) as second, pool.lease(wait=0) as third:
        assert [first.name, second.name, third.name] == ["a", "b", "c"]
        assert first.payload == {"address": "a.example.org"}
        assert first.token == row("a").version
        assert first.is_held
        first.check()
        with pytest.raises(ResourceUnavailable, match="a resource of pool 'proxies' was not available at once"):
            with pool.lease(wait=0):
                pass
        with pytest.raises(ResourceUnavailable, match=r"within 0\.1 s"), pool.lease(wait=0.1):
            pass
    assert not first.is_held


def test_the_least_recently_used_one(pool: Pool) -> None:
    names = []
    for _ in range(5):
        with pool.lease() as resource:
            names.append(resource.name)
    assert names == ["a", "b", "c", "a", "b"]


def test_statements(pool: Pool) -> None:
    with statements() as sent, pool.lease():
        pass
    assert len(sent) == 4  # look, take, read; release


def test_invalid_ones_are_put_aside(pool: Pool) -> None:
    asked = []

    def is_valid(resource: LeasedResource) -> bool:
        asked.append((resource.name, resource.payload["address"]))
        return resource.name == "c"

    with pool.lease(valid=is_valid) as resource:
        assert resource.name == "c"
    assert asked == [(name, f"{name}.example.org") for name in "abc"]
    assert free_names() == ["c"]


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(("pool", "seconds"), [(Pool(POOL), 86_400), (Pool(POOL, quarantine=3600), 3600)])
def test_the_quarantine_is_a_day_unless_set(pool: Pool, seconds: int) -> None:
    for name in ("a", "b"):
        pool.add(name)
    with pool.lease(valid=lambda resource: resource.name == "b"):
        pass
    with later(seconds - 1):
        assert free_names() == ["b"]
    with later(seconds):
        assert sorted(free_names()) == ["a", "b"]


def test_none_is_valid(pool: Pool) -> None:
    with pytest.raises(ResourceUnavailable), pool.lease(wait=0, valid=lambda resource: False):
        pass
    assert free_names() == []


@pytest.mark.parametrize("wait", [0, 1])
def test_none_is_ever_valid_and_all_are_back_at_once(pool: Pool, wait: float) -> None:
    asked = []

    def refuse(resource: LeasedResource) -> bool:
        asked.append(resource.name)
        return False

    with pytest.raises(ResourceUnavailable, match="no valid resource of pool"):
        Pool(POOL, quarantine=0).lease(wait=wait, valid=refuse).__enter__()
    assert asked[:3] == ["a", "b", "c"]
    assert len(asked) <= 3 + 2  # one more, and one after the pause


def test_no_other_is_tried_when_time_is_up(pool: Pool) -> None:
    """The time that ``valid`` takes counts, too."""
    asked = []

    def refuse(resource: LeasedResource) -> bool:
        asked.append(resource.name)
        assert not Event().wait(0.2)
        return False

    with pytest.raises(ResourceUnavailable), pool.lease(wait=0.1, valid=refuse):
        pass
    assert asked == ["a"]


def test_a_validator_that_fails_keeps_nothing(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError), pool.lease(valid=lambda resource: 1 / 0):
        pass
    assert sorted(free_names()) == ["a", "b", "c"]


def test_replace(pool: Pool) -> None:
    with pool.lease(wait=0) as resource:
        token = resource.token
        resource.replace()
        assert (resource.name, resource.payload) == ("b", {"address": "b.example.org"})
        assert row("a").version == token
        resource.replace()
        with pytest.raises(ResourceUnavailable):
            resource.replace()
        assert not resource.is_held
        with pytest.raises(LeaseLost, match="no resource of pool 'proxies' is held here"):
            resource.check()
    assert free_names() == []


def test_nothing_is_acquired_after_the_end(pool: Pool) -> None:
    """A resource that was acquired now would never be given back."""
    with pool.lease() as resource:
        pass
    with pytest.raises(LeaseLost):
        resource.replace()
    assert not renewer.leases()
    assert sorted(free_names()) == ["a", "b", "c"]


def test_replace_while_lost(pool: Pool) -> None:
    """A resource that another process holds by now is not put in quarantine."""
    with pool.lease(ttl=60, wait=0) as resource:
        assert resources.release_by_force(ALIAS, [(row("a").pk, resource.token)])
        for name in ("b", "c"):
            taken(name, "you")
        other = taken("a", "you")
        with pytest.raises(ResourceUnavailable):
            resource.replace()
        assert resources.is_held(ALIAS, other)
        resources.release(ALIAS, other)
        resource.replace()
        assert resource.name == "a"
        resource.check()


def test_replaced_when_its_loss_was_noticed(pool: Pool) -> None:
    """The block holds another resource, or none, and may ask again; the lost one is as others left it."""
    with pool.lease(wait=0) as resource:
        token = resource.token
        assert resources.release_by_force(ALIAS, [(row("a").pk, token)])
        with pytest.raises(LeaseLost):
            resource.check()
        assert not resource.is_held
        resource.replace()
        assert resource.name == "b"
        resource.check()

        assert resources.release_by_force(ALIAS, [(row("b").pk, resource.token)])
        others = [taken(name, "you") for name in "abc"]
        with pytest.raises(ResourceUnavailable):
            resource.replace()
        assert not resource.is_held
        resources.release(ALIAS, others[0])
        resource.replace()
        assert resource.name == "a"
        assert resource.token > token
        resource.check()


def test_replaced_by_a_thread_after_the_end(pool: Pool) -> None:
    """The block ends while the other resource is being acquired."""
    is_asked, has_ended = Event(), Event()

    def wait(resource: LeasedResource) -> bool:
        if resource.name != "a":
            is_asked.set()
            assert has_ended.wait(60)
        return True

    with pool.lease(valid=wait) as resource:
        thread = start_thread(resource.replace)
        assert is_asked.wait(60)
    has_ended.set()
    thread.result()
    assert not renewer.leases()
    assert sorted(free_names()) == ["b", "c"]


def test_one_is_waited_for(pool: Pool) -> None:
    for name in ("b", "c"):
        assert pool.disable(name)
    is_waiting = Event()

    def wait() -> str:
        is_waiting.set()
        with pool.lease(wait=60) as resource:
            return resource.name

    with pool.lease():
        thread = start_thread(wait)
        assert is_waiting.wait(60)
    assert thread.result() == "a"


def test_lost_when_removed(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    with pool.lease(ttl=1) as resource:
        assert pool.remove("a")
        wait_until(lambda: not renewer._due)
        assert not resource.is_held
        with pytest.raises(LeaseLost, match="resource 'a' of pool 'proxies' is no longer held"):
            resource.check()
    wait_until(lambda: "was lost" in caplog.text)  # said by the renewer's thread, a moment after
    assert not pool.remove("a")


def test_resources(pool: Pool) -> None:
    assert pool.disable("b")
    assert not pool.disable("d")
    found = list(pool.resources().values_list("name", "enabled"))
    assert found == [("a", True), ("b", False), ("c", True)]
    assert pool.enable("b")
    assert free_names() == ["a", "b", "c"]


def test_unknown_pool(pool: Pool) -> None:
    with pytest.raises(UnknownPool, match="pool='proxis': there is no such pool"), Pool("proxis").lease():
        pass


def test_all_disabled_is_not_unknown(pool: Pool) -> None:
    for name in "abc":
        pool.disable(name)
    with pytest.raises(ResourceUnavailable), pool.lease(wait=0):
        pass


@pytest.mark.usefixtures("frozen")
def test_silently_back_after_its_ttl(pool: Pool) -> None:
    with pool.lease(ttl=60) as resource:
        renewer.drop(resource._held)  # as if this process had died
        with later(59):
            assert "a" not in free_names()
        with later(60):
            assert "a" in free_names()
            with pytest.raises(LeaseLost):
                resource.check()

"""Forced races: one connection has changed a resource and not committed yet, another one wants to."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import Grant
from tests.leases.rows import TTL, add, row, take, taken, wanted
from tests.leases.test_resources import ENDS, VERBS
from tests.races.blocking import wait_until_blocked
from tests.store.verbs import ALIAS
from tests.threads import in_thread, start_thread

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

WRITES = sorted(set(VERBS) - {"is_held", "renew"})  # a renewal does not wait


def state_of(grant: Grant) -> list[Any]:
    return list(Resource.objects.filter(pk=grant.id).values_list())


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("end", ENDS)
def test_a_holder_writes_while_its_lease_is_being_ended(verb: str, end: str) -> None:
    add("a")
    grant = taken()
    with transaction.atomic():
        assert ENDS[end](grant)
        thread = start_thread(lambda: VERBS[verb](grant))
        wait_until_blocked(thread)
        expected = state_of(grant)
    assert not thread.result()
    assert state_of(grant) == expected


@pytest.mark.parametrize("verb", WRITES)
def test_what_ended_it_did_not_happen(verb: str) -> None:
    add("a")
    grant = taken()
    with ExitStack() as stack:
        stack.enter_context(transaction.atomic())
        assert resources.release_by_force(ALIAS, [(grant.id, grant.version)])
        thread = start_thread(lambda: VERBS[verb](grant))
        wait_until_blocked(thread)
        transaction.set_rollback(True)
    assert thread.result()


@pytest.mark.parametrize("commits", [True, False])
def test_two_take_one(commits: bool) -> None:
    add("a")
    [free] = line.queue_view(ALIAS, wanted()).free
    with transaction.atomic():
        assert resources.take(ALIAS, free, "me", TTL)
        thread = start_thread(lambda: resources.take(ALIAS, free, "you", TTL))
        wait_until_blocked(thread)
        transaction.set_rollback(not commits)
    other = thread.result()
    assert (other is None) is commits
    assert row().holder == ("me" if commits else "you")


CHANGES: dict[str, Callable[[], Any]] = {
    "disabled": lambda: resources.enable(ALIAS, wanted("a"), False),
    "removed": lambda: resources.remove(ALIAS, wanted("a")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_taken_while_it_goes(change: str) -> None:
    add("a")
    [free] = line.queue_view(ALIAS, wanted()).free
    with transaction.atomic():
        assert CHANGES[change]()
        thread = start_thread(lambda: resources.take(ALIAS, free, "me", TTL))
        wait_until_blocked(thread)
    assert thread.result() is None


def test_a_state_that_is_saved_in_a_transaction_keeps_others_away_until_its_end() -> None:
    """A holder that saves its state in the transaction of its effects has these fenced by it."""
    add("a")
    grant = taken()
    with transaction.atomic():
        assert resources.save_state(ALIAS, grant, '{"x": 1}')
        thread = start_thread(lambda: resources.release_by_force(ALIAS, [(grant.id, grant.version)]))
        wait_until_blocked(thread)
    assert thread.result()
    assert row().state == {"x": 1}


def test_many_take_few() -> None:
    """Each resource has one holder at a time, and each acquisition a token of its own."""
    names = ("a", "b", "c")
    add(*names)
    first = {name: row(name).version for name in names}
    grants: list[Grant] = []

    def take_and_give() -> None:
        for _ in range(40):
            grant = next(filter(None, map(take, names)), None)
            if grant:
                grants.append(grant)
                assert resources.release(ALIAS, grant)

    threads = [start_thread(take_and_give) for _ in range(6)]
    for thread in threads:
        thread.result()
    assert len({(grant.id, grant.version) for grant in grants}) == len(grants)
    for name in names:
        held = row(name)
        assert held.version - first[name] == sum(grant.id == held.pk for grant in grants)


def test_a_lease_ends_while_other_threads_use_it() -> None:
    """Whichever comes first, the resource is given back once, and is free."""
    add("a")
    for _ in range(20):
        grant = taken()
        threads = [start_thread(partial(VERBS[verb], grant)) for verb in ("renew", "save_state", "is_held")]
        assert in_thread(partial(resources.release, ALIAS, grant))
        for thread in threads:
            thread.result()
        assert (row().holder, len(line.queue_view(ALIAS, wanted()).free)) == ("", 1)

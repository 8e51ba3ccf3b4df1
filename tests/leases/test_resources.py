"""The rows: what each process may do to a resource, in each of its states."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import Grant
from tests.leases.rows import POOL, TTL, add, free_names, later, row, take, taken, wanted
from tests.store.meters import UNIT, reads, statements
from tests.store.verbs import ALIAS, NOW

pytestmark = [pytest.mark.usefixtures("db", "frozen"), pytest.mark.per_database]

DAY = timedelta(days=1)
HELD, RAN_OUT = 10, 60


def removed_and_added_again() -> bool:
    resources.remove(ALIAS, wanted("a"))
    add("a")
    return True


VERBS: dict[str, Callable[[Grant], Any]] = {
    "renew": lambda grant: resources.renew(ALIAS, [(grant, TTL)]).held == {grant},
    "is_held": lambda grant: resources.is_held(ALIAS, grant),
    "release": lambda grant: resources.release(ALIAS, grant),
    "quarantine": lambda grant: resources.quarantine(ALIAS, grant, DAY),
    "save_state": lambda grant: resources.save_state(ALIAS, grant, '{"x": 1}'),
}

ENDS: dict[str, Callable[[Grant], Any]] = {
    "released": lambda grant: resources.release(ALIAS, grant),
    "put aside": lambda grant: resources.quarantine(ALIAS, grant, DAY),
    "released by force": lambda grant: resources.release_by_force(ALIAS, [(grant.id, grant.version)]),
    "removed": lambda grant: resources.remove(ALIAS, wanted("a")),
    "removed and added again": lambda grant: removed_and_added_again(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_may(verb: str) -> None:
    add("a")
    grant = taken()
    with later(HELD):
        assert VERBS[verb](grant)


@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_that_ran_out_may_not(verb: str) -> None:
    add("a")
    grant = taken()
    with later(RAN_OUT):
        assert not VERBS[verb](grant)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("end", ENDS)
def test_a_former_holder_may_not(verb: str, end: str) -> None:
    add("a")
    grant = taken()
    assert ENDS[end](grant)
    assert not VERBS[verb](grant)


@pytest.mark.parametrize("verb", VERBS)
def test_a_former_holder_may_not_touch_the_next(verb: str) -> None:
    add("a")
    old = taken()
    with later(RAN_OUT):
        new = taken(holder="you")
        assert new.version > old.version
        assert not VERBS[verb](old)
        assert resources.is_held(ALIAS, new)


def test_the_holder_tells_two_acquisitions_of_one_version_apart() -> None:
    """Versions come again after a database was restored from a backup."""
    add("a")
    old = taken()
    Resource.objects.update(holder="you")
    assert not resources.is_held(ALIAS, old)
    assert not resources.release(ALIAS, old)


def test_the_version_tells_two_acquisitions_of_one_holder_apart() -> None:
    add("a")
    old = taken()
    with later(RAN_OUT):
        taken()
        assert not resources.is_held(ALIAS, old)
        assert not resources.release(ALIAS, old)


def test_a_held_one_is_not_given_again_until_it_runs_out() -> None:
    add("a")
    free = line.queue_view(ALIAS, wanted()).free
    first = resources.take(ALIAS, free[0], "me", TTL)
    assert first is not None
    assert resources.take(ALIAS, free[0], "you", TTL) is None
    assert resources.take(ALIAS, (first.id, first.version), "you", TTL) is None
    with later(59.9):
        assert take() is None
    with later(60):
        assert take() is not None


@pytest.mark.parametrize(
    ("change", "is_given"),
    [
        (lambda: resources.enable(ALIAS, wanted("a"), False), False),
        (lambda: resources.remove(ALIAS, wanted("a")), False),
        (lambda: resources.add(ALIAS, wanted("a"), "other"), True),
    ],
)
def test_a_change_between_the_look_and_the_taking(change: Callable[[], Any], is_given: bool) -> None:
    add("a")
    [resource] = line.queue_view(ALIAS, wanted()).free
    change()
    assert (resources.take(ALIAS, resource, "me", TTL) is not None) is is_given


def test_a_disabled_one_is_kept_by_its_holder() -> None:
    add("a")
    grant = taken()
    assert resources.enable(ALIAS, wanted("a"), False)
    assert resources.renew(ALIAS, [(grant, TTL)]) == ({grant}, set())
    assert resources.release(ALIAS, grant)
    assert free_names() == []
    assert resources.enable(ALIAS, wanted("a"), True)
    assert free_names() == ["a"]


def test_adding_again_changes_the_payload_alone() -> None:
    add("a")
    grant = taken()
    resources.enable(ALIAS, wanted("a"), False)
    resources.add(ALIAS, wanted("a"), [1])
    assert (row().payload, row().enabled, row().holder) == ([1], False, "me")
    assert resources.is_held(ALIAS, grant)


def test_the_token_does_not_go_back_when_a_resource_is_added_again() -> None:
    add("a")
    old = taken()
    resources.remove(ALIAS, wanted("a"))
    with later(1):
        add("a")
        assert taken().version > old.version


def test_names_are_told_apart_exactly() -> None:
    add("a", "A", "ä")
    assert len(free_names()) == 3


def test_least_recently_used_first() -> None:
    add("a", "b", "c")
    assert free_names() == ["a", "b", "c"]
    a, b = taken("a"), taken("b")
    with later(1):
        resources.release(ALIAS, b)
    with later(2):
        resources.release(ALIAS, a)
        add("d")
        assert free_names() == ["c", "d", "b", "a"]


def test_a_quarantine_ends_by_itself_or_by_force() -> None:
    add("a", "b")
    for name in "ab":
        assert resources.quarantine(ALIAS, taken(name), DAY)
    with later(DAY.total_seconds() - 1):
        assert free_names() == []
        assert resources.release_by_force(ALIAS, [(row("a").pk, row("a").version)])
        assert free_names() == ["a"]
    with later(DAY.total_seconds()):
        assert free_names() == ["a", "b"]


def test_force_is_fenced() -> None:
    add("a")
    seen = taken()
    with later(RAN_OUT):
        new = taken(holder="you")
        assert not resources.release_by_force(ALIAS, [(seen.id, seen.version)])
        assert resources.is_held(ALIAS, new)
        assert resources.release_by_force(ALIAS, [(new.id, new.version)])
        assert not resources.release_by_force(ALIAS, [(new.id, row().version)])


def test_who_holds_it_since_when() -> None:
    add("a")
    grant = taken()
    with later(HELD):
        resources.renew(ALIAS, [(grant, TTL)])
    assert (row().acquired_at, row().renewed_at) == (NOW, NOW + timedelta(seconds=HELD))
    assert row().busy_before == NOW + timedelta(seconds=HELD) + TTL
    assert row().host
    assert row().pid


def test_renewals_tell_which_leases_are_lost() -> None:
    names = [f"{number:03}" for number in range(250)]
    add(*names)
    grants = [taken(name) for name in names]
    resources.release_by_force(ALIAS, [grants[7][:2]])
    resources.release(ALIAS, grants[200])
    with statements() as sent:
        found = resources.renew(ALIAS, [(grant, TTL) for grant in grants])
    assert found == (set(grants) - {grants[7], grants[200]}, set())
    assert len(sent) == 2 + (connection.vendor != "sqlite")
    assert resources.renew(ALIAS, []) == (set(), set())


def test_reads_do_not_depend_on_what_is_busy(live_db: str) -> None:
    """The test cannot run inside a transaction: ANALYZE TABLE would commit it."""
    add(*(f"{number:04}" for number in range(10)))
    template = row("0000")
    Resource.objects.bulk_create(
        Resource(pool=pool, name=f"busy {enabled} {number}", version=1, busy_before=NOW + DAY, enabled=enabled)
        for pool in (POOL, "others")
        for enabled in (True, False)
        for number in range(1000)
    )
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {'TABLE ' * (connection.vendor == 'mysql')}{Resource._meta.db_table}")
    assert resources.release(ALIAS, taken("0001"))  # MySQL reads its dictionary before the first change of a table
    limit = 60 * UNIT.get(connection.vendor, 1)
    with reads() as meter:
        assert len(line.queue_view(ALIAS, wanted()).free) == 10
    assert meter.total <= limit
    with reads() as meter:
        grant = resources.take(ALIAS, (template.pk, template.version), "me", TTL)
        assert grant
        assert resources.renew(ALIAS, [(grant, TTL)]).held
        assert resources.release(ALIAS, grant)
    assert meter.total <= limit

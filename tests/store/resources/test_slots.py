"""Slots: who holds one, and what frees it."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import api, clock
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.resources import slots
from django_delayed_tasks.store.resources.slots import delete_unused_slots, free_slots
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.transactions import decisively
from tests.store import verbs
from tests.store.meters import reads, statements
from tests.store.resources.taking import give, take_slots
from tests.store.verbs import ALIAS, CODE, HOUR

pytestmark = pytest.mark.django_db


def runs(count: int) -> list[ClaimedTask]:
    """Return ``count`` claimed tasks."""
    for number in range(count):
        verbs.add(str(number))
    return sorted(verbs.claim(), key=lambda run: run.id)


def take(*claimed: ClaimedTask, limit: int = 2, key: str = "", most: int = 100) -> list[str]:
    """The numbers of those that have a slot now."""
    taken = take_slots(ALIAS, CODE, limit, {key: [run.claim for run in claimed]}, most)
    return [run.biz_num for run in claimed if run.claim in taken]


def test_as_many_as_the_limit_says() -> None:
    assert take(*runs(5)) == ["0", "1"]


def test_not_more_than_are_wanted() -> None:
    assert take(*runs(5), limit=4, most=3) == ["0", "1", "2"]


def test_none_while_all_are_held() -> None:
    first, second, third, *_ = runs(3)
    assert take(first) + take(second) + take(third) == ["0", "1"]


ENDS: dict[str, Callable[[ClaimedTask], object]] = {
    "done": lambda run: verbs.settle(verbs.done(run)),
    "retried": lambda run: verbs.settle(verbs.retry(run)),
    "rescheduled": lambda run: verbs.settle(verbs.again(run, HOUR)),
    "failed": lambda run: verbs.settle(verbs.failed(run)),
    "released": lambda run: verbs.settle(verbs.released(run)),
    "reaped": lambda run: reap(ALIAS, 3),
    "given up": lambda run: reap(ALIAS, 0),
}


@pytest.mark.parametrize("end", ENDS)
def test_free_when_its_claim_is_gone(end: str) -> None:
    first, second = runs(2)
    take(first, limit=1)
    assert take(second, limit=1) == []
    if end in ("reaped", "given up"):  # which takes the second one too
        ENDS[end](first)
        verbs.add("other")
        second = next(run for run in verbs.claim() if run.biz_num == "other")
    else:
        ENDS[end](first)
    assert take(second, limit=1) == [second.biz_num]


def test_the_next_claim_of_the_same_task_has_none_yet() -> None:
    first, second = runs(2)
    take(first, limit=1)
    verbs.settle(verbs.released(first))
    again = verbs.claim_one()
    assert again.id == first.id
    assert take(second, limit=1) == ["1"]
    assert take(again, limit=1) == []


def test_held_while_something_else_happens_to_the_task() -> None:
    """A run keeps its slot when a schedule is deferred, and when it is to stop."""
    first, second = runs(2)
    take(first, limit=1)
    verbs.add("0", HOUR)
    api.cancel_task(CODE, "0")
    assert take(second, limit=1) == []


def test_two_that_found_the_same_one_free() -> None:
    """Both have looked before either takes; of several slots, all are taken or none."""
    first, second, third = runs(3)
    one, other = free_slots(ALIAS, CODE, 2, {"": 2})[""]
    assert give(ALIAS, {first.claim: one})
    assert not give(ALIAS, {second.claim: one, third.claim: other})
    assert take(third) == ["2"]


def test_keys_do_not_share() -> None:
    first, second, third = runs(3)
    wanted: dict[str, list[Claim]] = {"x": [first.claim, second.claim], "y": [third.claim]}
    assert take_slots(ALIAS, CODE, 1, wanted, 10).keys() == {first.claim, third.claim}


@pytest.mark.parametrize("code", ["a", "a #1", "ä"])
@pytest.mark.parametrize(
    "key", ["", "#1", "x#1", "k" * 100, "k" * 101, "k" * 5000, "\0", "\ud800", " ", "sha256:x", "É"]
)
def test_any_key_and_any_code(code: str, key: str) -> None:
    """No two of them share a slot."""
    [run] = runs(1)
    for other_code, other_key in [("a", "other"), ("a #1", "x"), ("b", key)]:
        take_slots(ALIAS, other_code, 1, {other_key: [Claim(10**6, 1, 1)]}, 1)
    before = Resource.objects.count()
    assert run.claim in take_slots(ALIAS, code, 1, {key: [run.claim]}, 1)
    assert Resource.objects.count() == before + 1


@pytest.mark.parametrize("key", ["k" * 101, "\0"])
def test_a_key_that_looks_as_another_one_is_written(key: str) -> None:
    first, second = runs(2)
    written = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    wanted: dict[str, list[Claim]] = {key: [first.claim], written: [second.claim]}
    assert take_slots(ALIAS, CODE, 1, wanted, 10).keys() == {first.claim, second.claim}
    assert Resource.objects.filter(name=f"{written}#1").exists()


def test_a_smaller_limit_holds_from_now_on() -> None:
    first, second, third, fourth = runs(4)
    assert take(first, second, third, limit=3) == ["0", "1", "2"]
    verbs.settle(verbs.done(third))
    assert take(fourth, limit=2) == []
    verbs.settle(verbs.done(first))
    assert take(fourth, limit=2) == ["3"]


def test_new_ones_are_not_deleted_before_they_are_taken() -> None:
    """Housekeeping may come between an executor's look and its claim."""
    assert free_slots(ALIAS, CODE, 2, {"": 2})[""]
    assert delete_unused_slots(ALIAS, 100) == 0


def test_unused_ones_are_deleted() -> None:
    first, second, third = runs(3)
    take_slots(ALIAS, CODE, 1, {"idle": [first.claim], "held": [second.claim], "fresh": [third.claim]}, 3)
    verbs.settle(verbs.done(first), verbs.done(third))
    Resource.objects.exclude(name="fresh#1").update(busy_before=clock.EPOCH)
    assert delete_unused_slots(ALIAS, 100) == 1
    assert set(Resource.objects.values_list("name", flat=True)) == {"held#1", "fresh#1"}


def test_an_hour_after_they_were_last_taken() -> None:
    with clock.frozen_at(verbs.NOW):
        [run] = runs(1)
        take(run)
        verbs.settle(verbs.done(run))
    for minutes, deleted in ((59, 0), (61, 1)):
        with clock.frozen_at(verbs.NOW + timedelta(minutes=minutes)):
            assert delete_unused_slots(ALIAS, 100) == deleted


def test_one_that_is_taken_meanwhile_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = runs(2)
    take(first, limit=1)
    verbs.settle(verbs.done(first))
    Resource.objects.update(busy_before=clock.EPOCH)

    def look_then_lose(alias: str, work: Any) -> Any:
        found = decisively(alias, work)
        monkeypatch.undo()
        take(second, limit=1)
        return found

    monkeypatch.setattr(slots, "decisively", look_then_lose)
    assert delete_unused_slots(ALIAS, 100) == 0
    assert Resource.objects.filter(task_id=second.id).exists()


def test_as_many_rows_as_are_needed() -> None:
    first, second, third = runs(3)
    take(first, limit=100)
    assert Resource.objects.count() == 1
    take(second, third, limit=100)
    assert Resource.objects.count() == 3
    verbs.settle(*map(verbs.done, (first, second, third)))
    verbs.add("next")
    take(*verbs.claim(), limit=100)
    assert Resource.objects.count() == 3


def test_two_statements() -> None:
    claimed = runs(3)
    take(*claimed[:2], limit=5)
    verbs.settle(*map(verbs.done, claimed[:2]))
    with statements() as sent:
        assert take(claimed[2], limit=5) == ["2"]
    assert len(sent) == 2


def test_what_is_read_does_not_grow_with_the_tasks() -> None:
    """The slots, and the claims that hold them."""
    claimed = runs(3)
    take(*claimed, limit=3)

    def looked_at() -> int:
        with reads() as meter:
            take(*claimed, limit=3)
        return meter.total

    looked_at()
    before = looked_at()
    api.add_tasks(verbs.task(f"later {number}", HOUR) for number in range(2000))
    api.add_tasks(verbs.task(f"now {number}") for number in range(500))
    verbs.claim(limit=500)
    if connection.vendor == "postgresql":  # MariaDB and MySQL would commit
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    assert looked_at() <= before + 20


def test_the_longest_code_has_room() -> None:
    [run] = runs(1)
    assert take_slots(ALIAS, "c" * 50, 1, {"k" * 100: [run.claim]}, 1)


def test_when_it_was_taken() -> None:
    """The moment at which a slot was last taken is the database's."""
    [run] = runs(1)
    take(run, limit=1)
    row = Resource.objects.get()
    assert abs(row.busy_before - verbs.present("0").update_time) < timedelta(minutes=1)

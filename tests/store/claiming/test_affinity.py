"""Which rows an executor steals of those that others prefer, and how many at once."""

from datetime import timedelta

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.affinity import MOST_OF_ANY, MOST_OF_OTHERS, OTHERS, share_of
from tests.store import verbs
from tests.store.verbs import HOUR, NOW

pytestmark = pytest.mark.usefixtures("db", "frozen")


def leave(count: int, may_steal: int) -> list[int]:
    """Only tasks of the executor of rank 1 of two are due, ``count`` of them; return their ids, the first due first.

    The executor of rank ``may_steal`` may steal them.
    """
    api.add_tasks([verbs.task(str(number)) for number in range(10 * count)])
    chosen = [
        task.pk
        for task in Task.objects.order_by("claim_at", "pk")
        if share_of(task.pk, 2) == 1 and share_of(task.pk, 2, OTHERS) == may_steal
    ][:count]
    assert len(chosen) == count
    Task.objects.exclude(pk__in=chosen).delete()
    return chosen


def claim(limit: int = 100) -> list[int]:
    return [run.id for run in verbs.claim(executor=1, limit=limit, rank=0, executors=2)]


def test_a_few_of_its_part_at_a_time_from_the_tail() -> None:
    due = leave(3 * MOST_OF_OTHERS, may_steal=0)
    for _ in range(3):
        stolen, due = due[-MOST_OF_OTHERS:], due[:-MOST_OF_OTHERS]
        assert claim() == stolen
    assert claim() == due == []


def test_no_more_than_it_has_room_for() -> None:
    due = leave(MOST_OF_OTHERS, may_steal=0)
    assert claim(limit=3) == due[-3:]


def test_fewer_still_of_what_another_one_should_steal() -> None:
    """Its owner and the executor that may steal it may both be busy, or serve other queues."""
    due = leave(5, may_steal=1)
    assert claim() == due[:MOST_OF_ANY]
    assert claim(limit=1) == due[MOST_OF_ANY : MOST_OF_ANY + 1]


def test_nothing_is_left_behind_for_good_while_there_is_always_something_newer() -> None:
    """The owner of a task, and the executor that may steal it, may both be busy for hours: the third takes it."""
    api.add_tasks([verbs.task(str(number)) for number in range(300)])
    shares = {task.pk: (share_of(task.pk, 3), share_of(task.pk, 3, OTHERS)) for task in Task.objects.all()}
    theirs = [pk for pk, (owner, thief) in shares.items() if 0 not in (owner, thief)][:10]
    assert len(theirs) == 10
    Task.objects.filter(pk__in=theirs).update(claim_at=NOW - HOUR)
    taken: set[int] = set()
    for _ in range(5):
        floor = NOW - HOUR - timedelta(seconds=5)
        taken |= {run.id for run in verbs.claim(executor=1, limit=10, rank=0, executors=3, floor=floor)}
    mine = [pk for pk, (owner, _) in shares.items() if owner == 0]
    assert not taken.issuperset(mine), "there was always something newer"
    assert taken.issuperset(theirs)

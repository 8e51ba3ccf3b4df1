"""How many an executor takes at once of what is best left to others: more each time that these do not want them."""

from collections.abc import Iterator

import pytest
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming import affinity, compare_and_set
from django_delayed_tasks.store.claiming.affinity import STEAL_STEP, share_of
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.sql.dialects import dialect_of
from tests.store import verbs
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.usefixtures("db", "frozen")


@pytest.fixture(autouse=True)
def none_known() -> Iterator[None]:
    """Forget what executors of other tests have seen."""
    affinity._steal_sizes.clear()
    yield
    affinity._steal_sizes.clear()


def leave_to_others(count: int) -> None:
    """Make ``count`` tasks due, all of which are assigned to another executor than the one of place 0."""
    api.add_tasks([verbs.task(str(number)) for number in range(3 * count)])
    theirs = [task.pk for task in Task.objects.all() if share_of(task.pk, 2) == 1][:count]
    assert len(theirs) == count
    Task._base_manager.exclude(pk__in=theirs).delete()


def claim(limit: int = 100) -> int:
    """Return how many tasks the executor of place 0 claims at once."""
    return len(compare_and_set.claim(ALIAS, ClaimRequest(1, "default", 0, limit, place=0, executors=2)))


def best_left() -> int:
    """How many it would go for now."""
    return affinity._steal_sizes[ALIAS, 1]


def test_more_each_time_that_it_gets_all_of_them() -> None:
    leave_to_others(100)
    for times in (2, 3, 4):
        assert claim() > 0
        assert best_left() == times * STEAL_STEP


def test_no_more_than_it_has_room_for() -> None:
    leave_to_others(100)
    for _ in range(5):
        assert claim(limit=10) <= 10
    assert best_left() == 10


def test_what_is_left_behind_takes_no_room_that_is_not_there() -> None:
    """The other executor's tasks have waited for longer; together with its own they are no more than it asked for."""
    api.add_tasks([verbs.task(str(number)) for number in range(40)])
    theirs = [task.pk for task in Task.objects.all() if share_of(task.pk, 2) == 1]
    Task._base_manager.filter(pk__in=theirs).update(claim_at=verbs.NOW - verbs.HOUR)
    request = ClaimRequest(1, "default", 0, 5, verbs.NOW - verbs.HOUR, executors=2)
    claimed = [task.id for task in compare_and_set.claim(ALIAS, request)]
    assert len(claimed) == 5
    assert set(claimed) <= set(theirs)


def test_few_again_when_others_were_quicker() -> None:
    leave_to_others(100)
    claim()
    request = ClaimRequest(1, "default", 0, 100, place=0, executors=2)
    share = affinity.Affinity(ALIAS, dialect_of(connection), request)
    assert share.read()
    share.note(won_all=False)
    assert best_left() == STEAL_STEP


def test_what_is_its_own_says_nothing_of_others() -> None:
    api.add_tasks([verbs.task(str(number)) for number in range(20)])
    claim(limit=1)
    assert affinity._steal_sizes == {}

"""Rate tokens: at most n starts in any period, wherever it begins."""

from datetime import timedelta

import pytest
from django.db import connection

from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources.rate_tokens import free_tokens, provide_tokens, tokens_of
from tests.store.meters import reads, statements
from tests.store.resources.taking import lease, take_tokens
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
POOL = tokens_of("test")


def take(count: int) -> int:
    return take_tokens(ALIAS, POOL, MINUTE, count).starts


def pass_by(seconds: float) -> None:
    """Let ``seconds`` pass for all rate tokens."""
    for row in Resource.objects.filter(pool=POOL):
        Resource.objects.filter(pk=row.pk).update(busy_before=row.busy_before - timedelta(seconds=seconds))


@pytest.fixture(autouse=True)
def five() -> None:
    provide_tokens(ALIAS, POOL, 5, MINUTE)


def test_no_more_than_the_rate() -> None:
    assert [take(3), take(3), take(3)] == [3, 2, 0]


def test_each_comes_back_when_its_period_has_passed() -> None:
    take(2)
    pass_by(30)
    take(3)
    assert take(5) == 0
    pass_by(30.1)
    assert take(5) == 2
    pass_by(29)
    assert take(5) == 0
    pass_by(1)
    assert take(5) == 3


def test_tells_when_the_next_one_is_free() -> None:
    assert take_tokens(ALIAS, POOL, MINUTE, 3).next_in is None
    pass_by(20)
    taken = take_tokens(ALIAS, POOL, MINUTE, 3)
    assert taken.starts == 2
    assert taken.next_in is not None
    assert 39 < taken.next_in <= 40


def test_of_several_the_next_one_is_the_first() -> None:
    take(2)
    pass_by(20)
    take(3)
    taken = take_tokens(ALIAS, POOL, MINUTE, 5)
    assert taken.starts == 0
    assert taken.next_in is not None
    assert 39 < taken.next_in <= 40


def test_when_all_were_taken_at_once_the_next_one_is_a_period_away() -> None:
    assert take_tokens(ALIAS, POOL, MINUTE, 6) == (5, 60.0)
    assert take_tokens(ALIAS, tokens_of("other"), MINUTE, 6) == (0, None)


def test_two_that_found_the_same_ones_free() -> None:
    """All are taken, or none. Four and two of five are never all different, in whichever order they were found."""
    free = free_tokens(ALIAS, POOL, MINUTE, 4).free
    assert take(2) == 2
    assert not lease(ALIAS, free, MINUTE)
    assert take(5) == 3


def test_rates_do_not_share() -> None:
    provide_tokens(ALIAS, tokens_of("other"), 1, MINUTE)
    take(5)
    assert take_tokens(ALIAS, tokens_of("other"), MINUTE, 5).starts == 1


def test_a_higher_rate_has_more() -> None:
    take(5)
    provide_tokens(ALIAS, POOL, 8, MINUTE)
    assert take(9) == 3


def test_a_lower_rate_forgets_no_start_that_was_made() -> None:
    take(3)
    provide_tokens(ALIAS, POOL, 3, MINUTE)
    assert take(5) == 0


def test_no_start_is_forgotten_when_the_rate_goes_down_and_up() -> None:
    """In a rolling deploy, old and new executors each set their own rate."""
    take(5)
    for _ in range(3):
        provide_tokens(ALIAS, POOL, 2, MINUTE)
        provide_tokens(ALIAS, POOL, 5, MINUTE)
        assert take(5) == 0
    assert Resource.objects.count() == 5
    pass_by(60.1)
    assert take(9) == 5


def test_a_shorter_period_holds_for_starts_that_were_made() -> None:
    take(5)
    provide_tokens(ALIAS, POOL, 5, MINUTE / 2)
    pass_by(30.1)
    assert take_tokens(ALIAS, POOL, MINUTE / 2, 5).starts == 5


def test_shaping_is_done_once() -> None:
    with statements() as sent:
        provide_tokens(ALIAS, POOL, 5, MINUTE)
    assert len(sent) == 2
    assert Resource.objects.count() == 5


def test_two_statements() -> None:
    provide_tokens(ALIAS, POOL, 1000, MINUTE)
    with statements() as sent:
        take(3)
    assert len(sent) == 2


def test_what_is_read_does_not_grow_with_the_rate() -> None:
    def looked_at(size: int) -> int:
        provide_tokens(ALIAS, POOL, size, MINUTE)
        if connection.vendor == "postgresql":  # without statistics it may think the table empty, and read all of it
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        take(1)
        with reads() as meter:
            take(3)
        return meter.total

    few = looked_at(10)
    assert looked_at(1000) <= few + 20

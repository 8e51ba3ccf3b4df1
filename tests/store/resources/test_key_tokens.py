"""Rate tokens of keys: as many as a key needs, up to its rate; those that are not used are deleted."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connection

from django_delayed_tasks import clock
from django_delayed_tasks.models import POOL_LENGTH, Resource
from django_delayed_tasks.store.resources.rate_tokens import (
    delete_unused_starts,
    provide_tokens,
    tokens_of,
)
from django_delayed_tasks.store.resources.resources import UNUSED
from tests.store.meters import statements
from tests.store.resources.taking import ReapedTask, take_growing, take_tokens
from tests.store.verbs import ALIAS

MINUTE = timedelta(minutes=1)
POOL = tokens_of("code", "customer")


def take(count: int, starts: int = 5, pool: str = POOL, is_shaped: bool = False) -> int:
    return take_growing(ALIAS, pool, starts, MINUTE, count, is_shaped).starts


def tokens(pool: str = POOL) -> int:
    return Resource.objects.filter(pool=pool).count()


@pytest.mark.django_db
@pytest.mark.parametrize("is_shaped", [True, False])
def test_no_more_than_the_rate_in_any_period(is_shaped: bool) -> None:
    moment = clock.host_now()
    starts = []
    for second in range(0, 204, 7):
        with clock.frozen_at(moment + timedelta(seconds=second)):
            starts += [second] * take(2, is_shaped=is_shaped)
    assert all(later - earlier >= 60 for earlier, later in zip(starts, starts[5:], strict=False))
    assert len(starts) == 5 * 4
    assert tokens() == 5


@pytest.mark.django_db
def test_a_key_has_as_many_tokens_as_it_needs() -> None:
    """A key that is new costs a few rows, and one that is used often no statement for each further one."""
    numbers: list[int] = []
    for _ in range(6):
        assert take(1, starts=1000, is_shaped=bool(numbers)) == 1
        numbers.append(tokens())
    assert numbers == [1, 2, 4, 4, 8, 8]


@pytest.mark.django_db
def test_two_statements_while_tokens_are_free() -> None:
    take(3, starts=1000)
    take(1, starts=1000, is_shaped=True)
    with statements() as sent:
        assert take(2, starts=1000, is_shaped=True) == 2
    assert len(sent) == 2


@pytest.mark.django_db
def test_keys_do_not_share() -> None:
    assert [take(9), take(9, pool=tokens_of("code", "other")), take(9, pool=tokens_of("other", "customer"))] == [5] * 3
    provide_tokens(ALIAS, tokens_of("code"), 5, MINUTE)
    assert take_tokens(ALIAS, tokens_of("code"), MINUTE, 9).starts == 5


@pytest.mark.django_db
def test_a_lower_rate_holds_for_keys_with_more_tokens() -> None:
    moment = clock.host_now()
    with clock.frozen_at(moment):
        assert take(5) == 5
    with clock.frozen_at(moment + timedelta(seconds=61)):
        assert [take(5, starts=2) for _ in range(2)] == [2, 0]
        assert [take(9, starts=4) for _ in range(2)] == [2, 0]
    assert tokens() == 5


@pytest.mark.django_db
def test_tells_when_the_next_one_is_free() -> None:
    moment = clock.host_now()
    with clock.frozen_at(moment):
        take(5)
    with clock.frozen_at(moment + timedelta(seconds=20)):
        assert take_growing(ALIAS, POOL, 5, MINUTE, 1, True) == ReapedTask(0, 40.0)


@pytest.mark.parametrize("key", ["k" * 10_000, "支付 😀", "a\ud800b", " ", "%s'"])
def test_any_key_has_a_pool(key: str) -> None:
    code = "c" * 50
    assert len({tokens_of(code), tokens_of(code, key), tokens_of(code, key + " ")}) == 3
    assert len(tokens_of(code, key)) <= POOL_LENGTH + 50


@pytest.mark.django_db
def test_tokens_that_are_not_used_are_deleted() -> None:
    moment = clock.host_now()
    provide_tokens(ALIAS, tokens_of("code"), 5, MINUTE)
    with clock.frozen_at(moment):
        take(5)
        take(3, starts=1)  # disables four
        take(2, pool=tokens_of("code", "other"))
    with clock.frozen_at(moment + UNUSED):
        take(2, pool=tokens_of("code", "other"))
    with clock.frozen_at(moment + MINUTE + UNUSED):
        assert delete_unused_starts(ALIAS, 100) == 0
    with clock.frozen_at(moment + MINUTE + UNUSED + timedelta(microseconds=1)):
        assert [delete_unused_starts(ALIAS, 3) for _ in range(3)] == [3, 2, 0]
        assert (tokens(), tokens(tokens_of("code", "other")), tokens(tokens_of("code"))) == (0, 2, 5)
        assert take(9) == 5


@pytest.mark.parametrize("round_", range(5))
def test_executors_that_make_tokens_at_once_make_no_more_than_the_rate(live_db: str, round_: int) -> None:
    barrier = Barrier(4)

    def take_some(number: int) -> int:
        try:
            barrier.wait(60)
            return sum(take(2, is_shaped=bool(number % 2)) for _ in range(3))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take_some, range(4))) <= 5
    assert tokens() == 5

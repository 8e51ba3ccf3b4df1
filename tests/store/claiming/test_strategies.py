"""The strategies for claiming, and which one "auto" selects."""

import pytest

from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.strategies import skip_locked, sole_writer, strategy_for
from tests.store.fixtures import STRATEGIES
from tests.store.verbs import ALIAS

BEST = {"postgres": skip_locked, "sqlite": sole_writer}


def test_the_best_strategy_of_the_database_is_tested(database: str) -> None:
    assert set(STRATEGIES.values()) == {compare_and_set.claim, BEST.get(database, compare_and_set.claim)}


def test_compare_and_set_is_for_every_database(db: None) -> None:
    assert strategy_for(ALIAS, "compare_and_set") is compare_and_set.claim


def test_auto_is_the_best(db: None, database: str) -> None:
    assert strategy_for(ALIAS, "auto") is BEST.get(database, compare_and_set.claim)


def test_skip_locked_is_for_postgres_only(db: None, database: str) -> None:
    if database == "postgres":
        assert strategy_for(ALIAS, "skip_locked") is skip_locked
    else:
        with pytest.raises(ValueError, match="only PostgreSQL claims with SKIP LOCKED, and database 'default' is "):
            strategy_for(ALIAS, "skip_locked")

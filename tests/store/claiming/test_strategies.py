"""Which ways of claiming there are, and which one "auto" takes."""

import pytest
from django.db import connection

from django_delayed_tasks.store.claiming import compare_and_set, skip_locked, sole_writer
from django_delayed_tasks.store.claiming.strategies import strategy_for
from tests.store.fixtures import STRATEGIES
from tests.store.verbs import ALIAS


def test_every_strategy_that_the_database_can_do_is_tested(db: None) -> None:
    can_skip = connection.features.has_select_for_update_skip_locked
    assert set(STRATEGIES) == {"compare_and_set", "skip_locked" if can_skip else "sole_writer"}


@pytest.mark.parametrize("name", ["compare_and_set", "skip_locked"])
def test_named(db: None, name: str) -> None:
    """The strategy of that name, or an error that says why not."""
    if name in STRATEGIES:
        assert strategy_for(ALIAS, name) is STRATEGIES[name]
    else:
        with pytest.raises(ValueError, match="SKIP LOCKED"):
            strategy_for(ALIAS, name)


def test_auto(db: None, database: str) -> None:
    best = {"postgres": skip_locked.claim, "sqlite": sole_writer.claim}
    assert strategy_for(ALIAS, "auto") is best.get(database, compare_and_set.claim)

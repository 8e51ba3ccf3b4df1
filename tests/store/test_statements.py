"""How many statements a call sends: round trips are what it costs its caller."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from django_delayed_tasks import api
from django_delayed_tasks.store.claiming.agenda import read_agenda
from tests.store import verbs
from tests.store.fixtures import STRATEGIES
from tests.store.meters import statements
from tests.store.verbs import ALIAS, CODE, HOUR

INNODB = ("mariadb", "mysql")


def cost(action: Callable[[], object]) -> int:
    with statements() as sent:
        action()
    return len(sent)


def test_add_is_one_statement(live_db: str) -> None:
    assert cost(lambda: verbs.add(when=HOUR)) == 1
    assert cost(lambda: verbs.add(when=2 * HOUR, biz_ext="new")) == 1
    assert cost(lambda: verbs.add("kept", when=HOUR, if_exists="keep")) == 1
    assert cost(lambda: verbs.add("raised", when=HOUR, if_exists="raise")) == 1


def test_add_during_a_run(live_db: str) -> None:
    """Two where the first is planned sooner for it; in most cases it is enough."""
    verbs.add()
    verbs.claim_one()
    assert cost(lambda: verbs.add(when=HOUR)) == (1 if live_db in INNODB else 2)


def test_what_is_due_at_once_is_told_of(live_db: str) -> None:
    """After the commit, to executors of other processes, where there is a way to."""
    by_database = {"postgres": (1, 1), "sqlite": (0, 0)}  # the others ask who listens, once a second
    first, second = by_database.get(live_db, (1, 0))
    connection.close()
    assert cost(verbs.add) == 1 + first
    assert cost(lambda: api.add_tasks(verbs.task(str(i)) for i in range(1000))) == 2 + second


def test_add_in_a_transaction(live_db: str) -> None:
    """InnoDB's upsert takes gap locks; there an UPDATE comes first."""
    with transaction.atomic():
        assert cost(verbs.add) == (2 if live_db in INNODB else 1)
        assert cost(lambda: verbs.add(when=HOUR)) == 1


def test_other_calls(live_db: str) -> None:
    verbs.add()
    assert cost(lambda: verbs.add(when=HOUR, if_exists="keep")) <= 2
    assert cost(lambda: api.reschedule_task(CODE, "1", HOUR)) == 1
    assert cost(lambda: api.reschedule_task(CODE, "2", HOUR)) == 1
    assert cost(lambda: api.cancel_task(CODE, "1")) == 4
    assert cost(lambda: api.cancel_task(CODE, "1")) == 1
    assert cost(lambda: api.delete_tasks(CODE, "1")) == 1
    assert cost(lambda: api.add_tasks(verbs.task(str(i), HOUR) for i in range(1000))) == 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_claim(live_db: str, name: str) -> None:
    api.add_tasks(verbs.task(str(i)) for i in range(51))
    strategy = STRATEGIES[name]
    verbs.claim(strategy, limit=1)  # before its first claim a connection may say how long it waits for locks
    expected = 2 if name == "compare_and_set" else 1
    assert cost(lambda: verbs.claim(strategy, limit=40)) == expected
    assert cost(lambda: verbs.claim(strategy, limit=40)) == expected
    assert cost(lambda: verbs.claim(strategy, limit=40)) == 1


def test_a_settlement_of_plain_runs(live_db: str) -> None:
    api.add_tasks(verbs.task(str(i)) for i in range(200))
    first = verbs.claim()
    assert cost(lambda: verbs.settle(*map(verbs.done, first))) == 2
    second = verbs.claim()
    assert cost(lambda: verbs.settle(*(verbs.done(run, keep=False) for run in second))) == 1
    assert len(first) == len(second) == 100


def test_an_agenda(live_db: str) -> None:
    for level in range(3):
        verbs.add(str(level), queue=str(level))
    assert cost(lambda: read_agenda(ALIAS)) == 1

"""Fencing tokens: each claim of an identity has a larger one than all claims before it, in every life of it."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_delayed_tasks import api, clock
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.strategies import Strategy
from django_delayed_tasks.store.schedules.add import add_new
from django_delayed_tasks.store.settling import reap
from django_delayed_tasks.store.validation import Schedule
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]


def schedule() -> Schedule:
    """What an enqueued function adds."""
    return Schedule(CODE, "1", None, None, "default", 0)


ADDS: dict[str, Callable[[], object]] = {
    "add": verbs.add,
    "add, keep": lambda: verbs.add(if_exists="keep"),
    "add, raise": lambda: verbs.add(if_exists="raise"),
    "add, earliest": lambda: verbs.add(if_exists="earliest"),
    "add in bulk": lambda: api.add_tasks([verbs.task()]),
    "add in bulk, keep": lambda: api.add_tasks([verbs.task()], if_exists="keep"),
    "new": lambda: add_new(ALIAS, schedule()),
}


@pytest.mark.parametrize("add", ADDS)
def test_they_grow_over_the_lives_of_an_identity(strategy: Strategy, add: str) -> None:
    """The clock of the database goes back between two lives, as by a failover."""
    tokens = []
    for life in range(3):
        with clock.frozen_at(NOW - life * HOUR):
            ADDS[add]()
            for _ in range(3 - life):
                [run] = verbs.claim(strategy)
                tokens.append(run.fencing_token)
                verbs.settle(verbs.retry(run, timedelta()))
            [run] = verbs.claim(strategy)
            tokens.append(run.fencing_token)
            verbs.settle(verbs.done(run))
        assert verbs.row() is None
    assert tokens == sorted(set(tokens))
    assert max(tokens) < 2**63


CHANGES: dict[str, Callable[[], object]] = {
    "replaced": verbs.add,
    "kept": lambda: verbs.add(if_exists="keep"),
    "rescheduled": lambda: api.reschedule_task(CODE, "1", timedelta()),
    "deferred": lambda: (run := verbs.claim_one(), verbs.add(), verbs.settle(verbs.done(run))),
    "stopped and added": lambda: (
        run := verbs.claim_one(), api.cancel_task(CODE, "1"), verbs.add(), verbs.settle(verbs.done(run)),
    ),
    "cancelled and added": lambda: (api.cancel_task(CODE, "1"), verbs.add()),
    "failed and added": lambda: (verbs.settle(verbs.failed(verbs.claim_one())), verbs.add()),
    "rescued": lambda: (verbs.claim_one(), reap.reap(ALIAS, 5)),
    "released": lambda: verbs.settle(verbs.released(verbs.claim_one())),
    "run again later": lambda: verbs.settle(verbs.again(verbs.claim_one(), timedelta())),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_lowers_them(frozen: None, change: str) -> None:
    verbs.add()
    before = verbs.claim_one()
    verbs.settle(verbs.retry(before, timedelta()))
    CHANGES[change]()
    assert verbs.claim_one().fencing_token > before.fencing_token


def test_they_grow_after_a_life_of_ten_million_claims(frozen: None) -> None:
    verbs.add()
    Task._base_manager.update(version=10_000_000)
    first = verbs.claim_one()
    verbs.settle(verbs.done(first))
    verbs.add()
    assert verbs.claim_one().fencing_token > first.fencing_token

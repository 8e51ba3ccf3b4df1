"""A settlement that claims the next task in the slot of its run: its statements, and that a fence undoes all of it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import NextState, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.limits.claiming import Place, claim_in_slots, read_places
from django_delayed_tasks.store.resources.slots import free_slots
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.settling.settle import SettleResult, Wait, settle
from django_delayed_tasks.store.sql.fences import Claim
from tests.store import verbs
from tests.store.resources.taking import give
from tests.store.sql.test_beginning import in_own_thread
from tests.store.verbs import ALIAS, EXECUTOR, HOUR

pytestmark = pytest.mark.django_db(transaction=True)


def settle_and_claim(*, stolen: bool = False, deferred: bool = False) -> tuple[SettleResult, list[str]]:
    """Settle the run of one task and claim another; return what came of it, and its statements.

    ``stolen``: another executor has taken the slot of the run; ``deferred``: the task was added again during the run.
    """
    statements: list[str] = []
    ended: list[SettleResult] = []
    for num, ago in (("first", 2 * HOUR), ("second", HOUR)):
        verbs.add(num)
        Task._base_manager.filter(biz_num=num).update(claim_at=read_now(ALIAS) - ago)  # seekdb's clock may step back

    def note(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        statements.append(sql)
        return execute(sql, *arguments)

    def work() -> None:
        [run] = verbs.claim(limit=1)
        [slot] = free_slots(ALIAS, verbs.CODE, 1, {"": 1})[""]
        assert give(ALIAS, {run.claim: slot})
        [after] = read_places(ALIAS, EXECUTOR, {Place("", "default", 0): 1})[Place("", "default", 0)]
        slots: dict[ClaimedTask, tuple[int, int]] = {after: (slot[0], slot[1] + (0 if stolen else 1))}
        settle(ALIAS, [verbs.done(run)._replace(claim=Claim(0, 0, 0))], Wait.A_SECOND)  # a new connection sends more
        if deferred:
            verbs.add("first", HOUR)
        with connection.execute_wrapper(note):
            ended.append(
                settle(
                    ALIAS,
                    [verbs.done(run)],
                    Wait.A_SECOND,
                    lambda cursor, _: claim_in_slots(cursor, ALIAS, EXECUTOR, slots),
                )
            )

    in_own_thread(work)
    return ended[0], statements


def test_five_statements_settle_and_claim() -> None:
    ended, statements = settle_and_claim()
    assert [task.biz_num for task in ended.claimed] == ["second"]
    assert list(ended.became.values()) == [NextState.GONE]
    assert verbs.present("second").status == TaskStatus.RUNNING
    # SQLite's BEGIN is a statement of Django's; PostgreSQL is told how long to wait in each transaction.
    own = {"sqlite": ["BEGIN"], "postgresql": ["SET"], "mysql": []}[connection.vendor]
    assert [sql.split()[0] for sql in statements] == [*own, "INSERT", "DELETE", "SELECT", "UPDATE", "UPDATE"]


def test_a_slot_that_another_executor_has_taken_is_not_handed_on() -> None:
    ended, _ = settle_and_claim(stolen=True)
    assert (list(ended.became.values()), ended.claimed) == ([NextState.GONE], [])
    assert verbs.present("second").status == TaskStatus.PENDING
    assert TaskRun.objects.count() == 1


def test_a_fence_that_fails_undoes_the_claim_in_the_same_transaction() -> None:
    """The tasks are locked and read then, and the next one is claimed after all, once."""
    ended, _ = settle_and_claim(deferred=True)
    assert list(ended.became.values()) == [NextState.AGAIN]
    assert [task.claim for task in ended.claimed] == [Claim(verbs.present("second").id, 1, EXECUTOR)]
    assert verbs.present("second").version == 1
    assert (verbs.present("first").status, TaskRun.objects.count()) == (TaskStatus.PENDING, 1)

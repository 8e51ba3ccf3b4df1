"""A run ends while another transaction calls: what was committed first counts, what is rolled back does not."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from django_delayed_tasks import api
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.races.blocking import wait_until_blocked, wait_until_passed_by
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, HOUR
from tests.threads import start_thread

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


def running() -> ClaimedTask:
    verbs.add(biz_ext="old")
    return verbs.claim_one()


def ended_so(end: str) -> bool:
    """The open transaction is to end so; whether its effects stay."""
    transaction.set_rollback(end == "rollback")
    return end == "commit"


@ENDS
def test_add_before_a_settlement(live_db: str, end: str) -> None:
    """A schedule that is being added is not deleted by the end of the run."""
    run = running()
    with transaction.atomic():
        assert verbs.add(when=HOUR, biz_ext="new").action == "deferred"
        settling = start_thread(lambda: verbs.settle(verbs.done(run)))
        wait_until_blocked(settling)
        stays = ended_so(end)
    assert settling.result() == {run.claim: NextState.AGAIN if stays else NextState.GONE}
    row = verbs.row()
    assert (row and (row.status, row.biz_ext)) == ((TaskStatus.PENDING, "new") if stays else None)
    assert verbs.outcomes() == [RunOutcome.DONE]


@ENDS
def test_reschedule_before_a_settlement(live_db: str, end: str) -> None:
    run = running()
    with transaction.atomic():
        assert api.reschedule_task(CODE, "1", HOUR)
        settling = start_thread(lambda: verbs.settle(verbs.failed(run)))
        wait_until_blocked(settling)
        stays = ended_so(end)
    assert settling.result() == {run.claim: NextState.AGAIN if stays else NextState.FAILED}
    assert verbs.present().status == (TaskStatus.PENDING if stays else TaskStatus.FAILED)


@ENDS
@pytest.mark.parametrize("make", [verbs.done, verbs.retry, verbs.failed])
def test_cancel_before_a_settlement(live_db: str, make: Callable[[ClaimedTask], Settlement], end: str) -> None:
    run = running()
    with transaction.atomic():
        assert api.cancel_task(CODE, "1") == "stopping"
        settling = start_thread(lambda: verbs.settle(make(run)))
        wait_until_blocked(settling)
        stays = ended_so(end)
    settlement = make(run)
    assert settling.result() == {run.claim: NextState.GONE if stays else settlement.then}
    assert (verbs.row() is None) == (stays or settlement.then is NextState.GONE)
    cancelled = stays and settlement.then is not NextState.GONE
    assert verbs.outcomes() == [RunOutcome.CANCELLED if cancelled else settlement.outcome]


@ENDS
@pytest.mark.parametrize("make", [verbs.done, verbs.retry, verbs.failed])
def test_settlement_before_an_add(live_db: str, make: Callable[[ClaimedTask], Settlement], end: str) -> None:
    """An add that finds the end of the run being written waits for it, and is not lost with the row."""
    run = running()
    with transaction.atomic():
        verbs.settle(make(run))
        adding = start_thread(lambda: verbs.add(when=HOUR, biz_ext="new"))
        wait_until_blocked(adding)
        stays = ended_so(end)
    gone = "created" if make is verbs.done else "replaced"
    assert adding.result().action == (gone if stays else "deferred")
    row = verbs.present()
    assert adding.result().task_id == row.id
    assert (row.biz_ext if stays else row.deferred_biz_ext) == "new"
    assert row.status == (TaskStatus.PENDING if stays else TaskStatus.RUNNING)


@ENDS
@pytest.mark.parametrize("make", [verbs.done, verbs.retry])
def test_settlement_before_a_cancel(live_db: str, make: Callable[[ClaimedTask], Settlement], end: str) -> None:
    run = running()
    with transaction.atomic():
        verbs.settle(make(run))
        cancelling = start_thread(lambda: api.cancel_task(CODE, "1"))
        wait_until_blocked(cancelling)
        stays = ended_so(end)
    gone = "missing" if make is verbs.done else "cancelled"
    assert cancelling.result() == (gone if stays else "stopping")
    assert (verbs.row() is None) == stays


@ENDS
def test_reap_before_a_settlement(live_db: str, end: str) -> None:
    """Declared dead while it was still at work: it writes nothing."""
    run = running()
    with transaction.atomic():
        assert reap(ALIAS, 3) == {run.claim: NextState.RESCUED}
        settling = start_thread(lambda: verbs.settle(verbs.done(run)))
        wait_until_blocked(settling)
        stays = ended_so(end)
    assert settling.result() == ({} if stays else {run.claim: NextState.GONE})
    assert (verbs.row() is None) != stays
    assert verbs.outcomes() == [RunOutcome.LOST if stays else RunOutcome.DONE]


@ENDS
def test_settlement_before_a_reap(live_db: str, end: str) -> None:
    run = running()
    with transaction.atomic():
        verbs.settle(verbs.done(run))
        reaping = start_thread(lambda: reap(ALIAS, 3))
        wait_until_passed_by(reaping)
        stays = ended_so(end)
    became = reaping.result() | reap(ALIAS, 3)
    assert became == ({} if stays else {run.claim: NextState.RESCUED})
    assert verbs.outcomes() == [RunOutcome.DONE if stays else RunOutcome.LOST]


def test_two_settlements_of_one_claim(live_db: str) -> None:
    """A settler that does not know whether its COMMIT arrived, and says it again."""
    run = running()
    with transaction.atomic():
        verbs.settle(verbs.done(run))
        second = start_thread(lambda: verbs.settle(verbs.done(run)))
        wait_until_blocked(second)
    assert second.result() == {}
    assert verbs.outcomes() == [RunOutcome.DONE]


@pytest.mark.parametrize(
    ("make", "action"), [(verbs.done, "created"), (verbs.retry, "replaced"), (verbs.failed, "replaced")]
)
def test_settlement_within_an_add(live_db: str, make: Callable[[ClaimedTask], Settlement], action: str) -> None:
    """An add that has found the task running tries once more: what became of it in between counts."""
    run = running()
    sent: list[str] = []

    def settle_before_the_second(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent.append(sql)
        if len(sent) == 2:
            start_thread(lambda: verbs.settle(make(run))).result()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(settle_before_the_second):
        result = verbs.add(when=HOUR, biz_ext="new")
    if live_db in ("mariadb", "mysql"):  # where one statement does all
        assert (result.action, len(sent)) == ("deferred", 1)
    else:
        assert (result.action, len(sent)) == (action, 2)
        row = verbs.present()
        assert (row.status, row.biz_ext, row.deferred_when) == (TaskStatus.PENDING, "new", None)

"""Settling in batches, with fences."""

from collections.abc import Iterator

import pytest
from django.db import transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Success, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from tests.store import verbs
from tests.store.verbs import CODE, HOUR, NOW


@pytest.fixture(params=["inside a transaction", "outside"])
def written(request: pytest.FixtureRequest, live_db: str) -> Iterator[None]:
    """A batch of plain runs is written differently outside of a caller's transaction."""
    if request.param == "outside":
        yield
    else:
        with transaction.atomic():
            yield


def running(*nums: str) -> dict[str, ClaimedTask]:
    api.add_tasks([verbs.task(num) for num in nums])
    return {run.biz_num: run for run in verbs.claim()}


def history() -> dict[str, list[RunOutcome]]:
    return {num: verbs.outcomes(num) for num in TaskRun.objects.values_list("biz_num", flat=True)}


def test_nothing_to_settle(db: None) -> None:
    assert verbs.settle() == {}


def test_a_mixed_batch(written: None) -> None:
    runs = running("done", "again", "retry", "failed", "deferred", "cancelled", "untouched")
    verbs.add("deferred", HOUR)
    api.cancel_task(CODE, "cancelled")
    batch = [
        verbs.done(runs["done"]),
        verbs.again(runs["again"], HOUR),
        verbs.retry(runs["retry"]),
        verbs.failed(runs["failed"]),
        verbs.done(runs["deferred"]),
        verbs.retry(runs["cancelled"]),
    ]
    expected = [NextState.GONE, NextState.AGAIN, NextState.RETRY, NextState.FAILED, NextState.AGAIN, NextState.GONE]
    assert verbs.settle(*batch) == {one.claim: then for one, then in zip(batch, expected, strict=True)}
    assert dict(Task.objects.values_list("biz_num", "status")) == {
        "again": TaskStatus.PENDING, "retry": TaskStatus.PENDING, "failed": TaskStatus.FAILED,
        "deferred": TaskStatus.PENDING, "untouched": TaskStatus.RUNNING,
    }  # fmt: skip
    assert history() == {
        "done": [RunOutcome.DONE], "again": [RunOutcome.RESCHEDULED], "retry": [RunOutcome.RETRIED],
        "failed": [RunOutcome.FAILED], "deferred": [RunOutcome.DONE], "cancelled": [RunOutcome.CANCELLED],
    }  # fmt: skip


@pytest.mark.usefixtures("db", "frozen")
def test_again_for_a_past_time_after_a_pause() -> None:
    [run] = running("1").values()
    verbs.settle(verbs.again(run, NOW - HOUR)._replace(after=2 * HOUR))
    assert (verbs.present().when, verbs.present().claim_at) == (NOW - HOUR, NOW + HOUR)


def test_a_stale_run_among_good_ones(written: None) -> None:
    """It writes nothing, and does not keep the others from being settled."""
    runs = running("a", "b", "c")
    stale = runs["b"]
    verbs.settle(verbs.retry(stale, -HOUR))
    newer = verbs.claim_one()
    assert verbs.settle(*(verbs.done(run) for run in runs.values())) == {
        runs["a"].claim: NextState.GONE,
        runs["c"].claim: NextState.GONE,
    }
    assert (verbs.present("b").status, verbs.present("b").version) == (TaskStatus.RUNNING, newer.version)
    assert history() == {"a": [RunOutcome.DONE], "b": [RunOutcome.RETRIED], "c": [RunOutcome.DONE]}


@pytest.mark.parametrize(
    "then", [NextState.GONE, NextState.AGAIN, NextState.RETRY, NextState.FAILED, NextState.RESCUED, NextState.RELEASED]
)
def test_a_stale_run_writes_nothing(db: None, then: NextState) -> None:
    stale = running("a")["a"]
    verbs.settle(verbs.retry(stale, -HOUR))
    for _ in range(2):  # while it waits, then while it runs for another
        before = Task.objects.values().get()
        assert verbs.settle(Settlement(stale.claim, RunOutcome.DONE, then, when=HOUR)) == {}
        assert Task.objects.values().get() == before
        verbs.claim()
    assert verbs.outcomes("a") == [RunOutcome.RETRIED]


def test_settled_once_however_often_it_is_said(written: None) -> None:
    """It is unknown whether a lost COMMIT arrived: the settler may say it again."""
    runs = running("a", "b")
    batch = [verbs.done(run) for run in runs.values()]
    assert len(verbs.settle(*batch)) == 2
    assert verbs.settle(*batch) == {}
    assert history() == {"a": [RunOutcome.DONE], "b": [RunOutcome.DONE]}


@pytest.mark.parametrize("first", ["done", "failed"])
def test_of_two_settlements_of_one_claim_the_first_counts(written: None, first: str) -> None:
    run = running("a")["a"]
    pair = [verbs.done(run), verbs.failed(run)]
    chosen, other = pair if first == "done" else reversed(pair)
    assert verbs.settle(chosen, other) == {run.claim: chosen.then}
    assert verbs.outcomes("a") == [chosen.outcome]


@pytest.mark.parametrize("keep", [True, False])
def test_a_claim_that_was_settled_otherwise_deletes_nothing(written: None, keep: bool) -> None:
    """A retry keeps the version: what waits for it looks as the claim did, but for its status."""
    run = running("a")["a"]
    verbs.settle(verbs.retry(run))
    before = Task.objects.values().get()
    assert verbs.settle(verbs.done(run, keep=keep, once=True)) == {}
    assert Task.objects.values().get() == before
    assert (verbs.outcomes("a"), Success.objects.exists()) == ([RunOutcome.RETRIED], False)


def test_two_claims_of_one_task_in_a_batch(written: None) -> None:
    """The fence lets only the newer one through."""
    stale = running("a")["a"]
    verbs.settle(verbs.retry(stale, -HOUR))
    newer = verbs.claim_one()
    assert verbs.settle(verbs.done(stale), verbs.done(newer)) == {newer.claim: NextState.GONE}
    assert verbs.outcomes("a") == [RunOutcome.RETRIED, RunOutcome.DONE]


def test_a_handler_without_history(written: None) -> None:
    runs = running("kept", "unkept", "cancelled")
    api.cancel_task(CODE, "cancelled")
    verbs.settle(verbs.done(runs["kept"]), verbs.done(runs["unkept"], keep=False))
    verbs.settle(Settlement(runs["cancelled"].claim, RunOutcome.RETRIED, NextState.RETRY, keep=False))
    assert history() == {"kept": [RunOutcome.DONE], "cancelled": [RunOutcome.CANCELLED]}
    assert Task.objects.count() == 0


def test_again_with_other_data(db: None, frozen: None) -> None:
    runs = running("same", "other", "none")
    verbs.settle(
        verbs.again(runs["same"], HOUR),
        verbs.again(runs["other"], NOW + HOUR, {"page": 2}),
        verbs.again(runs["none"], -HOUR, None),
    )
    rows = {row.biz_num: (row.biz_ext, row.when, row.claim_at) for row in Task.objects.all()}
    assert rows == {
        "same": (None, NOW + HOUR, NOW + HOUR),
        "other": ({"page": 2}, NOW + HOUR, NOW + HOUR),
        "none": (None, NOW - HOUR, NOW),
    }


def test_a_retry_is_never_due_before_now(db: None, frozen: None) -> None:
    """Executors look no further back than a few seconds."""
    run = running("a")["a"]
    verbs.settle(verbs.retry(run, after=-HOUR))
    assert verbs.present("a").claim_at == NOW


def test_many_versions_in_one_batch(db: None) -> None:
    """Tasks that reschedule themselves have versions of all sorts: an OR for each must not be too deep for SQLite."""
    runs = running("a")
    strangers = [Settlement(Claim(10**12 + i, i, i % 3), RunOutcome.DONE, NextState.GONE) for i in range(1100)]
    assert verbs.settle(*strangers, verbs.done(runs["a"])) == {runs["a"].claim: NextState.GONE}


def test_a_large_batch(written: None) -> None:
    runs = running(*map(str, range(1000)))
    assert len(runs) == 100
    batches = [list(runs.values()), *iter(lambda: verbs.claim(compare_and_set.claim, limit=450), [])]
    assert [len(verbs.settle(*map(verbs.done, batch))) for batch in batches] == [100, 450, 450]
    assert (Task.objects.count(), TaskRun.objects.count()) == (0, 1000)

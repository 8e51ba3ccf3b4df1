"""The library's verbs, with everything filled in that a test does not care about."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django_delayed_tasks import api
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.outcomes import UNCHANGED, AddResult
from django_delayed_tasks.states import BizNum, IfExists, IfExistsName, NextState, RunOutcome
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced
from django_delayed_tasks.store.claiming.strategies import Strategy
from django_delayed_tasks.store.settling.settle import settle as settle_all
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim

ALIAS = "default"
CODE = "test"
EXECUTOR = 7
"""An executor without a row: a dead one, as far as reaping is concerned."""

NOW = datetime(2031, 5, 17, 9, 30, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)


def task(num: BizNum = "1", when: datetime | timedelta | None = None, **fields: Any) -> Task:
    """An unsaved task of the test's code."""
    return Task(**{"biz_code": CODE, "biz_num": num, "when": when, **fields})


def add(
    num: BizNum = "1",
    when: datetime | timedelta | None = None,
    if_exists: IfExists | IfExistsName = "replace",
    **fields: Any,
) -> AddResult:
    """``add_task`` of such a task."""
    return api.add_task(task(num, when, **fields), if_exists=if_exists)


def claim(
    strategy: Strategy = compare_and_set.claim,
    executor: int = EXECUTOR,
    limit: int = 100,
    *,
    queue: str = "default",
    priority: int = 0,
    **rest: Any,
) -> list[ClaimedTask]:
    """Claim what is due of one level; nothing when others were quicker."""
    try:
        return strategy(ALIAS, ClaimRequest(executor, queue, priority, limit, **rest))
    except Outpaced:
        return []


def claim_one(executor: int = EXECUTOR) -> ClaimedTask:
    """Claim the one task that is due."""
    [claimed] = claim(executor=executor)
    return claimed


def settle(*settlements: Settlement) -> dict[Claim, NextState]:
    """Settle these together; what became of those that were held."""
    return settle_all(ALIAS, settlements).became


def done(run: ClaimedTask, **fields: Any) -> Settlement:
    """Return the settlement of a run that succeeded."""
    return Settlement(run.claim, RunOutcome.DONE, NextState.GONE, **fields)


def again(run: ClaimedTask, when: datetime | timedelta, biz_ext: Any = UNCHANGED) -> Settlement:
    """Return the settlement of a run that asks for another time, with other data or the same."""
    data = biz_ext if biz_ext is UNCHANGED else json.dumps(biz_ext)
    return Settlement(run.claim, RunOutcome.RESCHEDULED, NextState.AGAIN, when=when, biz_ext=data)


def retry(run: ClaimedTask, after: timedelta = HOUR, error: str = "not yet") -> Settlement:
    """An attempt failed; there will be another."""
    return Settlement(run.claim, RunOutcome.RETRIED, NextState.RETRY, after=after, error=error)


def failed(run: ClaimedTask, error: str = "given up") -> Settlement:
    """Attempts are used up."""
    return Settlement(run.claim, RunOutcome.FAILED, NextState.FAILED, error=error)


def released(run: ClaimedTask, after: timedelta = timedelta()) -> Settlement:
    """Return the settlement of a task that was not started."""
    return Settlement(run.claim, RunOutcome.LOST, NextState.RELEASED, after=after, keep=False)


def row(num: str = "1", code: str = CODE) -> Task | None:
    """The live row, if there is one."""
    return Task.objects.filter(biz_code=code, biz_num=num).first()


def present(num: str = "1", code: str = CODE) -> Task:
    """The live row, which must be there."""
    found = row(num, code)
    assert found is not None
    return found


def outcomes(num: str = "1", code: str = CODE) -> list[RunOutcome]:
    """Return the outcomes in the history, oldest first."""
    runs = TaskRun.objects.filter(biz_code=code, biz_num=num).order_by("id")
    return [RunOutcome(outcome) for outcome in runs.values_list("outcome", flat=True)]

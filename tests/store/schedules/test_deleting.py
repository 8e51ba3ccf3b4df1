"""``delete_tasks``: what waits goes, in whichever way it waits; what runs stays."""

from collections.abc import Callable

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

pytestmark = pytest.mark.usefixtures("db", "frozen")

WAITING: dict[str, Callable[[], object]] = {
    "due": lambda: None,
    "later": lambda: api.reschedule_task(CODE, "1", HOUR),
    "to be retried": lambda: verbs.settle(verbs.retry(verbs.claim_one())),
    "failed": lambda: verbs.settle(verbs.failed(verbs.claim_one())),
    "paused": lambda: api.pause_task(CODE, "1"),
}


@pytest.mark.parametrize("way", WAITING)
def test_what_waits_is_deleted(way: str) -> None:
    verbs.add()
    WAITING[way]()
    assert api.delete_tasks(CODE, "1") == 1
    assert not Task.objects.exists()
    assert verbs.outcomes()[-1] == RunOutcome.CANCELLED


BESIDE_A_RUN: dict[str, Callable[[], object]] = {
    "running": lambda: None,
    "to be paused": lambda: api.pause_task(CODE, "1"),
    "to run again": lambda: verbs.add(when=HOUR),
}


@pytest.mark.parametrize("way", BESIDE_A_RUN)
def test_what_runs_stays(way: str) -> None:
    verbs.add()
    run = verbs.claim_one()
    BESIDE_A_RUN[way]()
    before = Task.objects.values().get()
    assert api.delete_tasks(CODE, "1") == 0
    assert Task.objects.values().get() == before
    assert (before["status"], before["version"]) == (TaskStatus.RUNNING, run.version)


def test_of_one_code_and_with_the_fragment_alone() -> None:
    for num in ("order-1", "order-2", "other"):
        verbs.add(num)
    verbs.add("order-1", biz_code="another")
    for num in ("order-1", "other"):
        api.pause_task(CODE, num)
    assert api.delete_tasks(CODE, "order") == 2
    assert set(Task.objects.values_list("biz_code", "biz_num")) == {(CODE, "other"), ("another", "order-1")}

"""What the log says when the claims of dead executors are taken."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Interval, clock
from django_delayed_tasks.executor.membership.reaper import Reaper
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.support.durations import MAX_LISTED, listed
from tests.deaths import crash
from tests.executor.failure_reports import Told
from tests.executor.parts import Bench, add, claim, registered

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]


def leave(name: str, *codes: str) -> int:
    """Tasks of these codes, claimed by an executor of this name that has died; its id."""
    executor = registered(name)
    for number, code in enumerate(codes):
        add(f"{name}-{number}", code)
    assert len(claim(executor)) == len(codes)
    crash(executor)
    return executor


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith(".reaper")]


def test_it_names_the_executors_and_counts_the_codes(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    leave("web2", "mail", "report", "mail")
    leave("web3", "mail")
    Reaper(bench.options, bench.lease, Told()).reap()
    [line] = said(caplog)
    assert line.startswith("took 4 tasks (mail: 3, report: 1) from dead executors ")
    assert line.endswith(("web2, web3", "web3, web2"))


def test_a_row_that_is_gone_has_no_name(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    gone = leave("web2", "mail")
    Executor.objects.filter(pk=gone).delete()
    Reaper(bench.options, bench.lease, Told()).reap()
    assert said(caplog) == ["took 1 task (mail: 1) from dead executor of unknown name"]


def test_an_executor_that_stops_does_not_call_itself_dead(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    add("1", "mail")
    add("2", "report")
    claim(bench.lease.executor)
    executors.retire("default", bench.lease.executor)
    Reaper(bench.options, bench.lease, Told()).reap()
    assert said(caplog) == ["2 tasks, whose runs have not ended here, may run elsewhere (mail: 1, report: 1)"]


def test_a_task_that_is_given_up_is_an_error(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    executor = leave("web2", "mail")
    Task._base_manager.update(rescues=3)
    failures = Told()
    Reaper(bench.options, bench.lease, failures).reap()
    assert Task.objects.get().status == TaskStatus.FAILED
    failures.log.start()
    failures.log.finish(30)
    [record] = [record for record in caplog.records if record.name == "django_delayed_tasks.run"]
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR,
        "mail web2-0 failed for good: its executor died 4 times while it ran; not rescued again",
    )
    given: dict[str, Any] = vars(record)
    assert (given["biz_num"], given["executor"], given["duration"]) == ("web2-0", executor, None)


@pytest.mark.parametrize("is_extra", [False, True])
def test_so_is_one_that_recurs_and_it_waits_for_its_next_time(
    is_extra: bool, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    add("1", "report", trigger=Interval(hours=1), when=timedelta(minutes=30) if is_extra else timedelta())
    planned = Task.objects.get().when
    if is_extra:
        Task._base_manager.update(claim_at=clock.host_now() - timedelta(seconds=1))  # as "run now" does
    executor = registered("web2")
    [claimed] = claim(executor)
    Task._base_manager.update(rescues=3)
    crash(executor)
    failures = Told()
    Reaper(bench.options, bench.lease, failures).reap()
    row = Task.objects.get()
    assert (row.status, row.rescues) == (TaskStatus.PENDING, 0)
    assert row.when == planned if is_extra else row.when > clock.host_now() + timedelta(minutes=30)
    [(task, error)] = failures.told
    assert (task.claim, task.when, task.executor) == (claimed.claim, planned, executor)
    failures.log.start()
    failures.log.finish(30)
    [record] = [record for record in caplog.records if record.name == "django_delayed_tasks.run"]
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR, f"report 1 failed for good this time; it recurs: {error}",
    )  # fmt: skip


def test_a_long_list_is_cut() -> None:
    names = [str(number) for number in range(MAX_LISTED + 2)]
    assert listed(names[:MAX_LISTED]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert listed(names) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"

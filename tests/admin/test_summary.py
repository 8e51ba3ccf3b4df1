"""The top of a task's page: buttons, the state in a sentence, progress, the timeline."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from django_delayed_tasks import pause_queue
from django_delayed_tasks.management.tasks.output import as_text
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats.why import told
from django_delayed_tasks.store.records.history import CUT_OFF
from django_delayed_tasks.store.sql.lanes import blocked_lane, open_lane
from tests.admin.conftest import Shop
from tests.admin.pages import messages_of, text_of
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, TRACEBACK, executor, page_of, run, task

pytestmark = pytest.mark.usefixtures("frozen")


def summary_of(client: Client, row: Task) -> str:
    html = client.get(page_of(row)).content.decode()
    found = re.search(r'<section class="ddt-summary".*?</section>', html, re.DOTALL)
    assert found
    return found[0]


def sentence_of(client: Client, row: Task) -> str:
    [found] = re.findall(r'<p class="ddt-state">(.*?)</p>', summary_of(client, row), re.DOTALL)
    return text_of(found)


def timeline_of(client: Client, row: Task) -> list[str]:
    return [" ".join(text_of(li).split()) for li in re.findall(r"<li>(.*?)</li>", summary_of(client, row), re.DOTALL)]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"claim_at": NOW + HOUR}, "pending Waits until 2031-05-17 12:30:00, in 1 h."),
        ({"claim_at": NOW + HOUR, "attempts": 1}, "pending Its next attempt is at 2031-05-17 12:30:00, in 1 h."),
        (
            {"status": TaskStatus.FAILED, "claim_at": NOW - 5 * MINUTE, "attempts": 3},
            "failed Failed 5 min ago, after 3 attempts.",
        ),
        ({"status": TaskStatus.PAUSED}, "paused Paused: it does not run until it is resumed."),
    ],
)
def test_sentence(boss: Client, fields: dict[str, Any], text: str) -> None:
    assert sentence_of(boss, task(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "of_executor", "reason"),
    [
        ({}, {}, "it waits for an executor"),
        ({}, {"expires_at": NOW - MINUTE}, "no executor is alive"),
        ({}, {"alive": None}, "no executor is alive"),
        ({}, {"queues": ["mail"]}, "no executor serves its queue"),
        ({}, {"exclude_queues": ["default"]}, "no executor serves its queue"),
        ({}, {"codes": ["other"]}, "no executor of its queue has a handler for its code"),
        ({"biz_ext": {"function": CODE}}, {"codes": ["other"]}, "it waits for an executor"),
        ({"lane": open_lane(CODE)}, {}, "it waits for an executor"),  # its handler is not limited any more
        (
            {"lane": open_lane("gone"), "biz_code": "gone"},
            {"codes": ["gone"]},
            "it waits for an executor, or for a limit of its code",
        ),
        (
            {"lane": blocked_lane(CODE, "")},
            {},
            "blocked: a task of its key None is running, or the key's rate allows no start yet",
        ),
    ],
)
def test_why_a_due_task_has_not_started(
    boss: Client, fields: dict[str, Any], of_executor: dict[str, Any], reason: str
) -> None:
    executor("web/1", **{"codes": [CODE], **of_executor})
    row = task(claim_at=NOW - HOUR, **fields)
    assert sentence_of(boss, row) == f"pending Due since 2031-05-17 10:30:00, late by 1 h: {reason}."


def test_one_without_a_handler_that_executors_put_off_again_and_again(boss: Client) -> None:
    """``manage.py tasks show`` says so too."""
    executor("web/1", codes=["other"])
    put_off = {"claim_at": NOW + timedelta(seconds=36), "create_time": NOW - HOUR}
    row = task("1", NOW - HOUR, **put_off)
    why = "no executor of its queue has a handler for its code"
    assert sentence_of(boss, row) == f"pending Due since 2031-05-17 10:30:00, late by 1 h: {why}."
    assert told(row, NOW) == why
    assert told(task("2", NOW, claim_at=NOW), NOW) == why, "at once"
    assert told(task("3", NOW + MINUTE, claim_at=NOW + MINUTE), NOW) == ""


def test_one_that_is_kept_apart_from_another_that_was_rescued(boss: Client) -> None:
    web = executor("web/1", codes=[CODE])
    row = task("1", claim_at=NOW - HOUR, rescues=2)
    running = task("2", status=TaskStatus.RUNNING, executor=web.pk)
    assert told(row, NOW) == "it waits for an executor"
    Task.objects.filter(pk=running.pk).update(rescues=1)
    why = "it is held back while other tasks run that were taken from dead executors: one of them may be the cause"
    assert told(row, NOW) == f"{why} ({CODE} 2 runs on web/1 (for 0.00 s))"
    executor("web/2", codes=[CODE])
    assert told(row, NOW) == "it waits for an executor"


def test_a_due_task_of_a_paused_queue(boss: Client) -> None:
    pause_queue("default")
    row = task(claim_at=NOW - HOUR)
    assert sentence_of(boss, row) == "pending Due since 2031-05-17 10:30:00, late by 1 h: its queue is paused."


def test_a_due_task_that_waits_for_a_resource(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shop, "pool", "proxies")
    executor("web/1", codes=[CODE])
    row = task(claim_at=NOW - HOUR)
    fields: dict[str, Any] = {"pool": "proxies", "version": 1}
    Resource.objects.create(name="1", busy_before=NOW + HOUR, **fields)
    Resource.objects.create(name="2", busy_before=NOW - HOUR, enabled=False, **fields)
    late = "pending Due since 2031-05-17 10:30:00, late by 1 h:"
    waits = "waits for a resource of the pool 'proxies': 0 free, 1 leased, 1 disabled"
    assert sentence_of(boss, row) == f"{late} {waits}."
    Resource.objects.create(name="3", busy_before=NOW - HOUR, **fields)
    assert sentence_of(boss, row) == f"{late} it waits for an executor."


def test_a_task_that_was_asked_to_stop_is_not_asked_again(boss: Client) -> None:
    fields: dict[str, Any] = {"status": TaskStatus.RUNNING, "attempts": 2}
    assert "Ask to stop" in summary_of(boss, task("1", **fields))
    stopping = task("2", **fields, cancel_requested_at=NOW)
    assert "Ask to stop" not in summary_of(boss, stopping)
    assert "This task was asked to stop" in boss.get(page_of(stopping)).content.decode()
    added_again = task("3", **fields, cancel_requested_at=NOW, deferred_when=NOW)
    assert "Ask to stop" in summary_of(boss, added_again)


def test_sentence_of_a_running_task(boss: Client) -> None:
    owner = executor("web2")
    fields: dict[str, Any] = {"status": TaskStatus.RUNNING, "executor": owner.pk, "attempts": 2}
    row = task("1", **fields, update_time=NOW - 2 * MINUTE)
    assert sentence_of(boss, row) == "running Running for 2 min on web2, attempt 2."
    assert f'<a href="{page_of(owner)}"><bdi>web2</bdi></a>' in summary_of(boss, row)
    stopping = task("2", **fields, cancel_requested_at=NOW)  # when it was claimed is not known any more
    assert sentence_of(boss, stopping) == "stopping Running on web2, attempt 2."


@pytest.mark.parametrize("of_executor", [{"alive": None}, {"expires_at": NOW - MINUTE}])
def test_sentence_of_a_task_whose_executor_is_dead(boss: Client, of_executor: dict[str, Any]) -> None:
    owner = executor("web2", **of_executor)
    row = task(status=TaskStatus.RUNNING, executor=owner.pk, attempts=2, update_time=NOW - 2 * MINUTE)
    wanted = "Was running on web2, attempt 2. That executor is not alive; another one takes the task."
    assert sentence_of(boss, row) == f"running {wanted}"


def test_timeline(boss: Client) -> None:
    owner = executor("web2")
    row = task("1", status=TaskStatus.RUNNING, executor=owner.pk, attempts=2, create_time=NOW - 3 * HOUR)
    begun = NOW - 2 * HOUR
    times = {"when": begun - MINUTE, "started": begun, "finished": begun + MINUTE}
    run("1", RunOutcome.RETRIED, executor=owner.pk, **times)
    run("1", RunOutcome.LOST, executor=99, attempt=2, started=begun + HOUR, finished=begun + HOUR + MINUTE)
    run("another", biz_code=CODE)
    assert timeline_of(boss, row) == [
        "2031-05-17 11:30:00 running Claimed by web2, attempt 2.",
        "2031-05-17 10:31:00 lost Attempt 2 on -, took 1 min",
        "2031-05-17 09:31:00 retried Attempt 1 on web2, 1 min late, took 1 min",
        "2031-05-17 08:30:00 Added.",
    ]


def test_timeline_of_runs_without_a_start(boss: Client) -> None:
    """An executor that is gone may have run the first one, and what it knew is gone, too."""
    owner = executor("web2")
    row = task("1", create_time=NOW - 3 * HOUR, update_time=NOW - 3 * HOUR)
    for outcome, hours in ((RunOutcome.LOST, 2), (RunOutcome.EXPIRED, 1)):
        run("1", outcome, executor=owner.pk, started=None, finished=NOW - hours * HOUR)
    assert [line for line in timeline_of(boss, row) if "Attempt" in line] == [
        "2031-05-17 10:30:00 expired Attempt 1 did not run",
        "2031-05-17 09:30:00 lost Attempt 1 on web2, which ended or lost its lease",
    ]


def test_a_task_whose_runs_were_cut_off(boss: Client) -> None:
    """``manage.py tasks show`` says so too."""
    owner = executor("web2", alive=None)
    row = task(create_time=NOW - 3 * HOUR)
    fields: dict[str, Any] = {"task_id": row.pk, "when": row.when, "executor": owner.pk, "started": None}
    for number in range(12):
        run("1", RunOutcome.LOST, finished=NOW - number * MINUTE, exception=CUT_OFF, **fields)
    run("1", RunOutcome.LOST, finished=NOW - 2 * HOUR, **fields)  # a rescue
    run("1", RunOutcome.LOST, finished=NOW - 2 * HOUR, exception=CUT_OFF, **{**fields, "task_id": row.pk + 1})
    run("1", RunOutcome.LOST, finished=NOW - 2 * HOUR, exception=CUT_OFF, **{**fields, "when": NOW - HOUR})
    assert sentence_of(boss, row) == "pending Waits until 2031-05-17 12:30:00, in 1 h. (cut off 12 times)"
    assert timeline_of(boss, row)[1] == "2031-05-17 11:30:00 lost Attempt 1 was cut off on web2"
    assert "pending; cut off 12 times" in "\n".join(as_text(row, [], NOW))


def test_timeline_of_a_task_that_was_changed_and_waits(boss: Client) -> None:
    row = task(create_time=NOW - HOUR)
    assert timeline_of(boss, row) == [
        "2031-05-17 12:30:00 next Can be claimed.",
        "2031-05-17 11:30:00 Changed.",
        "2031-05-17 10:30:00 Added.",
    ]


def test_timeline_of_a_task_that_was_asked_to_stop(boss: Client) -> None:
    row = task(status=TaskStatus.RUNNING, cancel_requested_at=NOW, deferred_when=NOW + HOUR)
    assert [line[20:] for line in timeline_of(boss, row)][:2] == [
        "Its next schedule, which was added during this run.", "stopping Asked to stop.",
    ]  # fmt: skip


def test_progress(boss: Client) -> None:
    row = task(status=TaskStatus.RUNNING, progress_fraction=0.42, progress_at=NOW)
    assert 'value="0.42" max="1"' in summary_of(boss, row)


def test_error_comes_before_the_form(boss: Client) -> None:
    html = boss.get(page_of(task(status=TaskStatus.FAILED, last_error=TRACEBACK))).content.decode()
    assert html.index("_retry_failed") < html.index("ValueError") < html.index('<details class="ddt-form">')


@pytest.mark.parametrize(("fields", "is_open"), [({}, False), ({"trigger": "Interval(hours=1)"}, True)])
def test_form_is_folded_unless_it_shows_next_times(boss: Client, fields: dict[str, Any], is_open: bool) -> None:
    assert ('<details class="ddt-form" open>' in boss.get(page_of(task(**fields))).content.decode()) == is_open


@pytest.mark.parametrize(
    ("fields", "refreshes"),
    [({}, False), ({"claim_at": NOW}, True), ({"status": TaskStatus.RUNNING}, True)],
)
def test_refresh(boss: Client, fields: dict[str, Any], refreshes: bool) -> None:
    assert ("data-ddt-refresh" in summary_of(boss, task(**fields))) == refreshes


def test_page_of_a_task_that_has_ended_leads_to_its_last_run(boss: Client) -> None:
    row = task()
    run("1", task_id=row.pk)
    last = run("1", task_id=row.pk)
    Task._base_manager.all().delete()
    response = boss.get(page_of(row))
    assert response["Location"] == page_of(last)
    assert messages_of(response) == ["This task has ended: this is its last run."]

"""``taskstatus``: the overview as text, with colors on a terminal, as JSON, and again and again."""

import json
import re
import sys
import time
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_delayed_tasks import stats
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.management import status_screen, status_texts
from django_delayed_tasks.management.commands import taskstatus
from django_delayed_tasks.models import Resource
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats import backlogs, findings, resources, snapshot, tables
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.resources.resources import MUTEXES
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, task
from tests.stats.fills import ended

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen")]


class Terminal(StringIO):
    """A terminal that remembers what was written."""

    def isatty(self) -> bool:
        return True


def said(*arguments: str, out: StringIO | None = None) -> str:
    """What the command writes."""
    out = out or StringIO()
    call_command("taskstatus", *arguments, stdout=out)
    return out.getvalue()


def fill() -> None:
    owner = executor("web1", queues=["shop"], codes=[CODE])
    task("late", NOW - 5 * MINUTE, claim_at=NOW - 5 * MINUTE, queue="mail")
    task("soon", NOW + 10 * MINUTE, queue="shop")
    task("runs", status=TaskStatus.RUNNING, update_time=NOW - MINUTE, executor=owner.pk, progress_fraction=0.5)
    ended(20, NOW - 5 * MINUTE)
    ended(3, NOW - 3 * MINUTE, outcome=RunOutcome.FAILED, error="shop.Declined")
    Resource.objects.create(pool="gateways", name="a", busy_before=NOW + HOUR, version=1)


def test_queues_that_an_executor_leaves_out() -> None:
    executor("web1", exclude_queues=["slow"])
    assert "all but slow" in said()


def test_text() -> None:
    fill()
    first, problem, *rest = said().splitlines()
    assert first == (
        "2031-05-17 11:30:00 CEST: 1 executor alive, late by 5 min (1 task), 1 running, 2 pending, 0 failed;"
        " in the last hour 20 done, 3 failed"
    )
    assert problem.startswith("ERROR: The queue “mail” has no executor (1 task due, the first for 5 min). Start")
    assert any(line.endswith("1 run due in the next hour") for line in rest)
    lines = [line.split() for line in rest]
    assert ["mail", "no", "executor", "5", "min,", "since", "11:25:00", "1", "0", "due", "0", "1"] in lines
    assert [CODE, "shop.Declined", "3", "3", "0", "3", "11:27"] in lines
    assert [CODE, "runs", "1", "min", "web1", "50", "%"] in lines
    assert ["web1", "web.example.org", "1", "of", "8", "shop"] in lines
    assert ["gateways", "1", "0", "0", "0"] in lines
    assert lines.index(["Queues"]) < lines.index(["Executors"])


def test_more_than_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (waiting, backlogs, findings):
        monkeypatch.setattr(module, "COUNTED", 10)
    for module in (snapshot, backlogs, findings):
        monkeypatch.setattr(module, "MAX_RUNNING", 12)
    for number in range(14):
        for status in (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.FAILED):
            task(f"{status} {number}", status=status)
    assert "> 12 running, > 10 pending, > 10 failed;" in said()
    take_survey("default")
    assert "14 running, 14 pending, 14 failed;" in said()


def test_a_pool_with_more_resources_than_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (resources, tables):
        monkeypatch.setattr(module, "COUNTED", 2)
    for number in range(4):
        Resource.objects.create(pool="gateways", name=f"{number}", busy_before=NOW - HOUR, version=1)
    assert ["gateways", "0", ">", "2", "0", "0"] in [line.split() for line in said().splitlines()]


def test_runs_that_were_lost_are_not_failed() -> None:
    ended(3, NOW - MINUTE, outcome=RunOutcome.LOST, error="its executor died or lost its lease")
    text = said()
    assert "in the last hour 0 done, 0 failed" in text
    assert "What goes wrong" in text.splitlines()
    assert ["lease", "3", "3", "3", "0", "11:29"] in [line.split()[-6:] for line in text.splitlines()]


def test_numbers_names_and_blanks() -> None:
    Resource.objects.create(pool=MUTEXES, name="nightly", busy_before=NOW + HOUR, version=1)
    ended(1200, NOW - MINUTE, outcome=RunOutcome.FAILED, error="shop.Declined", late=None, took=None)
    lines = said().splitlines()
    assert "0 runs due in the next hour" in lines
    words = [line.split() for line in lines]
    assert [CODE, "shop.Declined", "1,200", "1,200", "0", "1,200", "11:29"] in words
    assert ["mutexes", "1", "0", "0", "0"] in words


def test_an_empty_database() -> None:
    text = said()
    assert "0 executors alive, nothing late" in text
    assert "WARNING: No executor is alive." in text
    assert "Running" not in text


def test_json_is_that_of_the_page() -> None:
    fill()
    data = json.loads(said("--format", "json", "--span", "day"))
    assert data == json.loads(json.dumps(stats.overview("day").as_json()))
    assert (data["span"], data["backlog"]["late"]) == ("day", 1)


def test_a_terminal_gets_colors() -> None:
    fill()
    text = said(out=Terminal())
    assert "\x1b[1;31mThe queue “mail” has no executor" in text
    assert "shop.Declined" in text


def test_without_rich_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    monkeypatch.setitem(sys.modules, "django_delayed_tasks.management.status_screen", None)
    monkeypatch.delattr("django_delayed_tasks.management.status_screen", raising=False)
    assert said(out=Terminal()) == said()


def test_a_narrow_screen() -> None:
    fill()
    lines = status_screen.drawn(stats.overview(), width=60).splitlines()
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in lines) <= 60


@pytest.mark.parametrize("out", [StringIO, Terminal])
def test_watching_until_interrupted(monkeypatch: pytest.MonkeyPatch, out: Any) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        task(f"{len(waits)}", queue="mail")
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    text = said("--watch", "--interval", "0.5", out=out())
    assert waits == [0.5] * 3
    assert [f"{number} pending" in text for number in range(4)] == [True, True, True, False]
    assert text.count(taskstatus.CLEAR) == (3 if out is Terminal else 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(["--interval", "0"], "must be above 0"), (["--database", "nowhere"], "there is no database 'nowhere'")],
)
def test_wrong_options(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error):
        said(*arguments)


def test_heights_of_a_line() -> None:
    bars = [stats.Bar(NOW, {"a": number} if number else {}) for number in (0, 1, 4, 8)]
    assert status_texts.sparkline(bars) == " ▁▄█"
    assert status_texts.sparkline([]) == ""

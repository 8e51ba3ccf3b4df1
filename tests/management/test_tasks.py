"""``manage.py tasks``: what it lists, shows and changes, its exit codes, and what it asks before."""

import io
import json
import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError
from django.utils import timezone

from django_delayed_tasks import Interval
from django_delayed_tasks.api import pause_queue, pause_task
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.management.tasks.output import local
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.executor.parts import add, claim, drain, handler_of, registered
from tests.management.conftest import Call
from tests.pages import ROOT, blocks

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]

HOUR = timedelta(hours=1)


def listed(call: Call, *arguments: str) -> list[str]:
    """The numbers of the tasks that are listed."""
    return [task["biz_num"] for task in json.loads(call("tasks", *arguments, "--format", "json").out)]


def test_list_filters(call: Call) -> None:
    add("a-1", when=2 * HOUR)
    add("a-2", when=-HOUR)
    add("b-1", code="other", when=HOUR, queue="slow")
    pause_task("code", "a-1")
    assert listed(call, "list") == ["a-2", "b-1", "a-1"]
    assert listed(call, "list", "--code", "code") == ["a-2", "a-1"]
    assert listed(call, "list", "--match", "-1") == ["b-1", "a-1"]
    assert listed(call, "list", "--queue", "slow") == ["b-1"]
    assert listed(call, "list", "--status", "paused") == ["a-1"]
    assert listed(call, "list", "--status", "failed") == []
    assert listed(call, "list", "--due-after", "30m", "--due-before", "90m") == ["b-1"]
    assert listed(call, "list", "--late", "0s") == ["a-2"]
    assert listed(call, "list", "--late", "1h") == []


def test_list_says_that_there_are_more(call: Call) -> None:
    add("1")
    add("2")
    called = call("tasks", "list", "--limit", "1")
    assert (called.code, len(called.out.splitlines())) == (0, 2)
    assert "There are more tasks" in called.err
    assert call("tasks", "list", "--limit", "2").err == ""


def test_list_as_text_is_a_table(call: Call) -> None:
    Task._base_manager.filter(pk=add("a-1")).update(last_error="Traceback …\n  File …\nOSError: down\n")
    heading, line = call("tasks", "list").out.splitlines()
    assert heading.split()[:3] == ["code", "number", "status"]
    assert line.split()[:3] == ["code", "a-1", "pending"]
    assert line.endswith("default  OSError: down")
    assert line.index("a-1") == heading.index("number")


def test_list_shows_what_is_wrong_and_not_where(call: Call) -> None:
    error = 'Traceback (most recent call last):\n  File "shop.py", line 1, in pay\n    pay()\nValueError: no money\n'
    Task._base_manager.filter(pk=add("a-1")).update(last_error=error)
    assert call("tasks", "list").out.splitlines()[1].endswith("default  ValueError: no money")


def test_next_has_the_tasks_of_limited_handlers(call: Call) -> None:
    handler_of(lambda task: None, "limited", max_concurrent=1)
    add("first", "limited", when=timedelta(minutes=10), queue="slow")
    add("second", when=HOUR)
    add("third", "limited", when=2 * HOUR)
    assert listed(call, "next") == ["first", "second", "third"]


def test_next_is_what_runs_next(call: Call) -> None:
    add("later", when=3 * HOUR)
    add("soon", when=HOUR, priority=-5)
    add("other", code="other", when=2 * HOUR, queue="slow", priority=7)
    add("stopped", when=HOUR, queue="stopped")
    pause_queue("stopped")
    assert listed(call, "next") == ["soon", "other", "later"]
    assert listed(call, "next", "--limit", "2") == ["soon", "other"]
    assert listed(call, "next", "--queue", "slow") == ["other"]


def test_next_until_has_each_time_of_a_recurring_task(call: Call) -> None:
    add("soon", when=HOUR)
    add("again", when=2 * HOUR, trigger=Interval(hours=1))
    add("later", when=5 * HOUR)
    planned = json.loads(call("tasks", "next", "--until", "in 3h30m", "--format", "json").out)
    assert [(run["biz_num"], run["is_later"]) for run in planned] == [
        ("soon", False), ("again", False), ("again", True),
    ]  # fmt: skip
    called = call("tasks", "next", "--until", "3h30m", "--limit", "2")
    heading, first, second = called.out.splitlines()
    assert heading.split() == ["claimable", "from", "code", "number", "queue", "attempt", "trigger"]
    assert "soon" in first
    assert second.endswith("1        Interval(hours=1)")
    assert called.err.strip() == "There are more runs: see --limit."
    with pytest.raises(CommandError, match="not allowed with"):
        call("tasks", "next", "--until", "4h", "--queue", "default")


def test_show(call: Call, failed: None) -> None:
    shown = json.loads(call("tasks", "show", "code", "1", "--format", "json").out)
    assert (shown["biz_num"], shown["status"], shown["attempts"]) == ("1", "failed", 1)
    assert datetime.fromisoformat(shown["when"]).tzinfo
    [run] = shown["runs"]
    assert (run["outcome"], run["attempt"], run["error"]) == ("failed", 1, "no money")
    text = call("tasks", "show", "code", "1").out
    assert "no money" in text
    assert "attempt 1" in text
    assert "\nlast error  no money\n" in text
    assert "\nfailed at   2" in text
    assert "claimable from" not in text
    assert call("tasks", "show", "code", "9").code == 3


def test_show_has_the_next_times_of_a_recurring_task(call: Call) -> None:
    handler_of(lambda task: None)
    add("1")
    when = datetime(2096, 5, 1, 12, tzinfo=UTC)
    add("2", when=when, trigger="Interval(hours=1)")
    assert json.loads(call("tasks", "show", "code", "1", "--format", "json").out)["next_times"] == []
    assert "next times" not in call("tasks", "show", "code", "1").out
    times = json.loads(call("tasks", "show", "code", "2", "--format", "json").out)["next_times"]
    assert [datetime.fromisoformat(time) for time in times] == [when + number * HOUR for number in range(3)]
    text = call("tasks", "show", "code", "2").out
    _, shown = text.split("\nnext times ")
    assert [line.split()[:2] for line in shown.splitlines()[:3]] == [
        local(when + number * HOUR).split()[:2] for number in range(3)
    ]
    Task._base_manager.filter(biz_num="2").update(status=TaskStatus.PAUSED)
    assert "The task is paused: it will not run at these times" in call("tasks", "show", "code", "2").out
    Task._base_manager.filter(biz_num="2").update(trigger="nonsense")
    assert json.loads(call("tasks", "show", "code", "2", "--format", "json").out)["next_times"] == []
    assert "next times" not in call("tasks", "show", "code", "2").out


def test_a_time_in_the_past_is_pointed_out(call: Call) -> None:
    handler_of(lambda task: None)
    past = r"The task is due at once: its time was \d+ d( \d+ h)? ago\.\n"
    assert re.fullmatch(past, call("tasks", "add", "code", "1", "--when", "2025-01-01 12:00").err)
    assert re.fullmatch(past, call("tasks", "reschedule", "code", "1", "--when", "2025-01-01 12:00").err)
    for when in ("now", "30m", "2096-01-01 12:00"):
        assert call("tasks", "add", "code", "1", "--when", when).err == ""
        assert call("tasks", "reschedule", "code", "1", "--when", when).err == ""


def test_show_a_task_that_has_ended(call: Call, transactional_db: None) -> None:
    handler_of(lambda task: None)
    add("1")
    drain()
    called = call("tasks", "show", "code", "1")
    assert (called.code, called.err.strip()) == (3, "There is no such task now; these are its last runs.")
    assert called.out.strip().endswith("done  attempt 1")
    [run] = json.loads(call("tasks", "show", "code", "1", "--format", "json").out)["runs"]
    assert run["outcome"] == "done"


def test_show_says_what_a_blocked_task_waits_for(call: Call) -> None:
    handler_of(lambda task: None, max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext["customer"])
    Task._base_manager.filter(pk=add("1", biz_ext={"customer": "acme"})).update(lane=blocked_lane("code", "acme"))
    text = call("tasks", "show", "code", "1").out
    assert "pending; blocked: a task of its key 'acme' is running, or the key's rate allows no start yet\n" in text
    assert json.loads(call("tasks", "show", "code", "1", "--format", "json").out)["status"] == "pending"


def test_show_says_what_a_task_with_a_pool_waits_for(call: Call) -> None:
    def shown(number: str = "1") -> str:
        [line] = [line for line in call("tasks", "show", "code", number).out.splitlines() if line.startswith("status ")]
        return line.removeprefix("status").strip()

    handler_of(lambda task: None, pool="proxies")
    add("1")
    add("2", when=HOUR)
    waits = "pending; waits for a resource of the pool 'proxies': 0 free, "
    assert shown() == f"{waits}0 leased, 0 disabled"
    proxies = Pool("proxies")
    proxies.add("a")
    assert shown() == "pending"
    with proxies.lease():
        proxies.add("b")
        proxies.disable("b")
        assert shown() == f"{waits}1 leased, 1 disabled"
        assert shown("2") == "pending"


def test_failed_tasks_have_the_time_at_which_they_failed(call: Call, failed: None) -> None:
    assert call("tasks", "list", "--status", "failed").out.split("\n")[0].split()[4:6] == ["failed", "at"]
    assert call("tasks", "list").out.split("\n")[0].split()[4:6] == ["claimable", "from"]


def test_secrets_are_hidden(call: Call, settings: Any) -> None:
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "REDACT": ["token"]}
    add("1", biz_ext={"token": "s3cret", "order": 4711})
    for verb in (["show", "code", "1"], ["list"], ["next"]):
        for form in ("text", "json"):
            assert "s3cret" not in call("tasks", *verb, "--format", form).out
    assert "4711" in call("tasks", "show", "code", "1").out


def test_a_task_that_waits_has_no_executor(call: Call) -> None:
    add("1")
    assert "executor" not in call("tasks", "show", "code", "1").out
    assert json.loads(call("tasks", "show", "code", "1", "--format", "json").out)["executor_name"] is None


def test_show_names_the_executor_of_a_running_task(call: Call) -> None:
    add("1")
    executor = registered("web-7")
    claim(executor)
    assert re.search(r"^executor +web-7$", call("tasks", "show", "code", "1").out, re.MULTILINE)
    shown = json.loads(call("tasks", "show", "code", "1", "--format", "json").out)
    assert (shown["executor"], shown["executor_name"]) == (executor, "web-7")
    Executor.objects.all().delete()
    assert re.search(rf"^executor +{executor}$", call("tasks", "show", "code", "1").out, re.MULTILINE)


def test_add(call: Call) -> None:
    arguments = ["--data", '{"order": 1}', "--queue", "slow", "--priority", "5", "--expires", "2h"]
    called = call("tasks", "add", "code", "1", "--when", "in 1 hour", *arguments, "--format", "json")
    added = json.loads(called.out)
    task = Task.objects.get(pk=added["task_id"])
    assert (added["action"], task.biz_ext, task.queue, task.priority) == ("created", {"order": 1}, "slow", 5)
    assert task.expires_at
    assert timedelta() < task.when - timezone.now() <= HOUR
    assert call("tasks", "add", "code", "1", "--if-exists", "keep").out == f"Task {task.pk}: kept.\n"
    with pytest.raises(CommandError, match="exists already"):
        call("tasks", "add", "code", "1", "--if-exists", "raise")


def test_data_from_standard_input(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of processes and the history of the shell show every argument."""
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"token": "s3cret"}\n'))
    call("tasks", "add", "code", "1", "--data", "-")
    assert Task.objects.get().biz_ext == {"token": "s3cret"}
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"token": "s3cret"'))
    with pytest.raises(CommandError, match="delimiter") as wrong:
        call("tasks", "add", "code", "1", "--data", "-")
    assert "s3cret" not in str(wrong.value)


def test_add_what_expires_now(call: Call) -> None:
    call("tasks", "add", "code", "1", "--expires", "now")
    expires_at = Task.objects.get().expires_at
    assert expires_at
    assert expires_at <= timezone.now()


def test_add_a_recurring_task(call: Call) -> None:
    call("tasks", "add", "code", "1", "--trigger", "Interval(minutes=5)")
    assert Task.objects.get().trigger_text == "Interval(minutes=5)"


def test_cancel_asks_on_a_terminal(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    add("1")
    with pytest.raises(CommandError, match=r"1 task of code.*no terminal.*--yes"):
        call("tasks", "cancel", "code", "1")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\ny\n"))
    with pytest.raises(CommandError, match="nothing was changed"):
        call("tasks", "cancel", "code", "1")
    assert Task.objects.exists()
    called = call("tasks", "cancel", "code", "1")
    assert "Cancel 1 task of code? This cannot be undone. [y/N]" in called.err
    assert "1 task was cancelled" in called.out
    assert not Task.objects.exists()
    assert TaskRun.objects.get().outcome == RunOutcome.CANCELLED


def test_cancel_says_which_tasks_are_still_running(call: Call) -> None:
    stops = " running: {} asked to stop, and will not be run again.\n"
    add("a-1")
    claim(registered())
    assert call("tasks", "cancel", "code", "a-1", "--yes").out == "1 task is" + stops.format("it was")
    add("a-2")
    claim(registered("other"))
    for number in ("b-1", "b-2"):
        add(number)
    assert call("tasks", "cancel", "code", "--all", "--yes").out == (
        "2 tasks were cancelled.\n2 tasks are" + stops.format("they were")
    )
    add("a-3")
    assert call("tasks", "cancel", "code", "a-3", "--yes").out == "1 task was cancelled.\n"


def test_cancel_many(call: Call) -> None:
    for number in ("a-1", "a-2", "b-1"):
        add(number)
    assert "2 tasks are selected" in call("tasks", "cancel", "code", "--match", "a-", "--dry-run").out
    assert Task.objects.count() == 3
    called = call("tasks", "cancel", "code", "--match", "a-", "--yes", "--format", "json")
    assert json.loads(called.out) == {"changed": 2}
    assert [task.biz_num for task in Task.objects.all()] == ["b-1"]


@pytest.mark.parametrize("verb", ["cancel", "retry", "reschedule"])
def test_every_task_of_a_code_only_if_that_is_said(call: Call, verb: str) -> None:
    add("1")
    by = ["--by", "1h"] if verb == "reschedule" else []
    with pytest.raises(CommandError, match=r"^code='code': without a number or a filter, .*; pass --all if"):
        call("tasks", verb, "code", *by)
    with pytest.raises(CommandError, match="names one task"):
        call("tasks", verb, "code", "1", "--all", *by)
    assert call("tasks", verb, "code", "--all", "--dry-run", *by).code == (3 if verb == "retry" else 0)


def test_retry(call: Call, failed: None) -> None:
    assert call("tasks", "retry", "code", "3").code == 3  # it has not failed
    assert "1 failed task is pending again" in call("tasks", "retry", "code", "1").out
    assert Task.objects.get(biz_num="1").status == TaskStatus.PENDING
    assert json.loads(call("tasks", "retry", "code", "--failed-since", "1 hour ago", "--format", "json").out) == {
        "changed": 1
    }
    assert not Task.objects.filter(status=TaskStatus.FAILED).exists()


def test_run_now(call: Call) -> None:
    add("1", when=HOUR)
    called = call("tasks", "run-now", "code", "1")
    assert (called.code, called.out) == (0, "The task is due now.\n")
    assert listed(call, "list", "--late", "0s") == ["1"]
    assert call("tasks", "run-now", "code", "2").code == 3
    claim(registered())  # of "1"
    assert call("tasks", "run-now", "code", "1").code == 3  # it is running


def test_reschedule_one(call: Call) -> None:
    add("1", when=HOUR)
    call("tasks", "reschedule", "code", "1", "--when", "2030-01-31T18:00+00:00")
    assert Task.objects.get().when == datetime(2030, 1, 31, 18, tzinfo=UTC)
    call("tasks", "reschedule", "code", "1", "--by", "1d")
    assert Task.objects.get().when == datetime(2030, 2, 1, 18, tzinfo=UTC)
    assert call("tasks", "reschedule", "code", "2", "--when", "now").code == 3


def test_reschedule_many(call: Call) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for number in ("1", "2"):
        add(number, when=moment)
    with pytest.raises(CommandError, match=r"2 tasks of code.*--yes"):
        call("tasks", "reschedule", "code", "--all", "--by=-2h")
    call("tasks", "reschedule", "code", "--all", "--by=-2h", "--yes")
    assert set(Task.objects.values_list("when", flat=True)) == {moment - 2 * HOUR}


def test_the_tour_of_the_reference(call: Call) -> None:
    handler_of(lambda task: None, "cancel-unpaid-order")
    [tour] = blocks(ROOT / "docs/reference/commands.md", "console")
    codes = {}
    for line in tour.text.replace("\\\n", " ").splitlines():
        command = shlex.split(line.removeprefix("$ python manage.py "))
        codes[command[1]] = call(*command).code
    assert codes.pop("retry") == 3  # none has failed
    assert set(codes.values()) == {0}
    assert not Task.objects.exists()

"""``manage.py tasks``: wrong arguments, which end it with 2, and why no task was changed, which ends it with 3."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connections

from django_delayed_tasks import api
from django_delayed_tasks.management.commands.tasks import Command
from django_delayed_tasks.models import Task
from tests.executor.parts import add, handler_of
from tests.management.conftest import Call

HOUR = timedelta(hours=1)
pytestmark = pytest.mark.django_db


def from_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """The exit code of ``manage.py tasks`` for a shell, and what it has written to stderr."""
    monkeypatch.setattr(connections, "close_all", lambda: None)
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        Command().run_from_argv(["manage.py", "tasks", *arguments])
    return int(end.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--code", "cod"], "no handler is registered for it"),
        (["list", "--limit", "0"], "limit=0: must be at least 1"),
        (["list", "--due-before", "soon"], "'soon': expected now, a span"),
        (["add", "code", "1", "--data", "{"], "--data: this is not JSON (Expecting property name"),
        (["add", "code", "1", "--data", "hi"], """(char 0)); a text needs quotes: '"hi"'"""),
        (["add", "code", "1", "--trigger", "Never()"], "trigger"),
        (["add", "code", "1", "--when", "2030-02-31"], "--when: '2030-02-31': day "),
        (["reschedule", "code", "1"], "give either --when or --by"),
        (["reschedule", "code", "1", "--when", "now", "--by", "1h"], "--by: not allowed with argument --when"),
        (["reschedule", "code", "--all", "--when", "now"], "--when is for one task"),
        (["reschedule", "code", "1", "--when", "soon"], "argument --when: 'soon': expected now"),
        (["reschedule", "code", "1", "--when", "0001-01-01", "--dry-run"], "when="),
        (["retry", "code"], "pass --all if that is intended"),
        (["retry", "code", "--failed-since", "2h"], "'2h' is in the future; a time in the past is written as '2 hours"),
        (["retry", "code", "--failed-since", "2222-01-01"], "'2222-01-01' is in the future"),
        (["add", "code", "1", "--priority", "900"], "priority=900: "),
        (["cancel", "cod", "1"], "no handler is registered for it"),
        (["list", "--database", "nowhere"], "there is no database 'nowhere'; the aliases are"),
        (["fix"], "invalid choice: 'fix'"),
    ],
)
def test_wrong_arguments(
    call: Call,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    settings.DELAYED_TASKS = {}
    handler_of(lambda task: None)
    with pytest.raises(CommandError) as caught:
        call("tasks", *arguments)
    assert said in str(caught.value)
    code, shown = from_a_shell(monkeypatch, capsys, *arguments)
    lines = [line for line in shown.splitlines() if not line.startswith(("usage:", " "))]
    assert (code, len(lines)) == (2, 1)
    assert lines[0].count(said) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["retry", "code", "3"], "code 3 is pending; only failed tasks can be retried."),
        (["retry", "code", "3", "--dry-run"], "code 3 is pending; only failed tasks can be retried."),
        (["run-now", "code", "1"], "code 1 is failed; only pending tasks can be made due now."),
        (["retry", "code", "9"], "No task was changed: code has none with the number 9."),
        (["run-now", "code", "9"], "No task was changed: code has none with the number 9."),
        (["cancel", "code", "9", "--yes"], "No task was changed: code has none with the number 9."),
        (["reschedule", "code", "9", "--by", "1h"], "No task was changed: code has none with the number 9."),
        (["cancel", "code", "--match", "9"], "No task was changed: there is none, or its state does not allow this."),
    ],
)
def test_why_no_task_was_changed(call: Call, failed: None, arguments: list[str], said: str) -> None:
    called = call("tasks", *arguments)
    assert (called.code, called.out, called.err.strip()) == (3, "", said)


def test_a_task_that_changes_at_the_same_moment(call: Call, failed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "change_each", lambda tasks, verb: Counter())
    assert call("tasks", "retry", "code", "1").err == "No task was changed: this one changed at the same moment.\n"


def test_from_python_a_span_is_a_timedelta(call: Call) -> None:
    handler_of(lambda task: None)
    add("1", when=HOUR)
    before = Task.objects.get().when
    call("tasks", "reschedule", "code", "1", by=HOUR)
    assert Task.objects.get().when - before == HOUR


@pytest.mark.parametrize("arguments", [["pausequeue", "mail"], ["pausequeue"], ["prunetasks", "--older-than", "7d"]])
def test_a_database_that_does_not_exist(call: Call, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="there is no database 'nowhere'; the aliases are"):
        call(*arguments, "--database", "nowhere")

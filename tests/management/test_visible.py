"""What the commands write of names and errors that SQL has written: nothing that a terminal would obey."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_delayed_tasks import stats
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.management import status_screen, status_texts
from django_delayed_tasks.models import Executor, PausedQueue, Resource, Task, TaskRun
from tests.executor.parts import add, registered
from tests.management.conftest import Call

pytestmark = pytest.mark.django_db

NAME = "A1\n2026 FORGED\x1b]0;title\x07\x9b2J\u202e"
SHOWN = r"A1\n2026 FORGED\u001b]0;title\u0007\u009b2J\u202e"
OBEYED = set("\x1b\x07\x9b\u202e\r")


@pytest.fixture
def found() -> None:
    """A task, a run, an executor, a pool and a paused queue, whose texts have the name."""
    now = timezone.now()
    add("1", when=timedelta(hours=-1))
    error = f"Traceback (most recent call last):\n  …\nValueError: {NAME}"
    Task._base_manager.update(biz_num=NAME, queue=NAME, last_error=error)
    row = Task.objects.get()
    own = {"biz_code": row.biz_code, "biz_num": NAME, "task_id": row.pk, "version": 1, "attempt": 1}
    TaskRun.objects.create(**own, when=now, started=now, finished=now, outcome=1, error=error)
    Executor.objects.filter(pk=registered()).update(name=NAME, host=NAME, queues=[NAME])
    Resource.objects.create(pool=NAME, name=NAME, holder="h", host=NAME, pid=1, busy_before=now, version=1)
    PausedQueue.objects.create(queue=NAME, paused_at=now)


def is_safe(text: str) -> bool:
    return not OBEYED & set(text) and "\n2026 FORGED" not in text


def test_each_command(call: Call, found: None) -> None:
    commands: list[list[Any]] = [
        ["tasks", "list"], ["tasks", "next", "--until", "in 1 hour"], ["tasks", "show", "code", NAME],
        ["pausequeue"], ["pausequeue", NAME, "--resume"], ["taskstatus"], ["taskhealth"],
        ["tasks", "retry", "code", NAME],
    ]  # fmt: skip
    for command in commands:
        written = call(*command)
        assert is_safe(written.out + written.err), command
    assert SHOWN in call("tasks", "list").out
    assert SHOWN in call("tasks", "show", "code", NAME).out


def test_json_has_the_same_values(call: Call, found: None) -> None:
    written = call("tasks", "list", "--format", "json").out
    assert is_safe(written)
    assert json.loads(written)[0]["biz_num"] == NAME
    status = call("taskstatus", "--format", "json").out
    assert is_safe(status)
    assert NAME in [queue["name"] for queue in json.loads(status)["backlog"]["queues"]]


def test_the_status_in_colors(found: None) -> None:
    pytest.importorskip("rich")
    seen = stats.overview()
    drawn = status_screen.drawn(seen, width=400)
    assert not (OBEYED - {"\x1b"}) & set(drawn)
    assert "\x1b]0" not in drawn
    assert is_safe(status_texts.plain(seen))


def test_what_the_terminal_gives_is_refused() -> None:
    with pytest.raises(CommandError, match="is not shown as it is"):
        call_command("tasks", "add", "code", NAME)
    with pytest.raises(CommandError, match="is not shown as it is"):
        call_command("pausequeue", NAME)
    for option in ("--queues", "--exclude-queues", "--name"):
        with pytest.raises(CommandError, match=option.removeprefix("--").replace("-", "_")):
            call_command("starttask", option, "a\x1bb", "--drain")
    with pytest.raises((CommandError, InvalidTask), match="is not shown as it is"):
        call_command("runmutex", "a\x1bb", command=["true"])

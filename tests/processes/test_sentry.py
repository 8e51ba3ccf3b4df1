"""The real Sentry, set up as the documentation says: a task that failed is one event, without secrets."""

import json
from typing import Any

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.processes.conftest import Start
from tests.processes.folder import EVENTS, Folder

SENTRY = {
    "DJANGO_SETTINGS_MODULE": "tests.processes.sentry_settings",
    "DDT_MORE_HANDLERS": '["tests.processes.failing.Failing"]',
}


def test_a_failure_is_an_event(starttask: Start, folder: Folder, unknown_codes: None) -> None:
    task_id = add_task(Task(biz_code="failing", biz_num="A-1", biz_ext={"order": 4711, "token": "s3cret"})).task_id
    child = starttask("--drain", environment=SENTRY, REDACT=["token"])
    assert child.exit_code() == 0
    last = TaskRun.objects.get(outcome=RunOutcome.FAILED)

    text = (folder.path / EVENTS).read_text()
    [event] = [json.loads(line) for line in text.splitlines()]  # of the second attempt; the first is a warning
    assert (event["level"], event["logger"]) == ("error", "django_delayed_tasks.run")
    [raised] = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ValueError", "order 4711 cannot be paid with 6 characters")
    in_handler: dict[str, Any] = raised["stacktrace"]["frames"][-1]
    assert in_handler["function"] == "handle"
    assert in_handler["vars"]["data"]["order"] == "4711"
    assert "s3cret" not in text + child.output
    extra = event["extra"]
    assert {name: extra[name] for name in ("task_id", "biz_code", "biz_num", "attempt", "executor")} == {
        "task_id": task_id, "biz_code": "failing", "biz_num": "A-1", "attempt": 2, "executor": last.executor,
    }  # fmt: skip
    assert last.started
    assert extra["duration"] == (last.finished - last.started).total_seconds()
    assert extra["lateness"] == (last.started - last.when).total_seconds()


def test_one_issue_for_each_code_and_error(starttask: Start, folder: Folder, unknown_codes: None) -> None:
    for number, order in (("A-1", 1), ("A-2", 22), ("refused-1", 1), ("refused-2", 22)):
        add_task(Task(biz_code="failing", biz_num=number, biz_ext={"order": order, "token": "s3cret"}))
    child = starttask("--drain", environment=SENTRY, REDACT=["token"])
    assert child.exit_code() == 0
    events = [json.loads(line) for line in (folder.path / EVENTS).read_text().splitlines()]
    runs = "django_delayed_tasks.run"
    assert sorted(event["fingerprint"] for event in events) == [
        *[[runs, "failing", "builtins.ValueError"]] * 2, *[[runs, "failing", "order # is closed"]] * 2,
    ]  # fmt: skip

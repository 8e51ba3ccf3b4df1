"""Every way to a moment refuses the same moments, and a row that has one of them, by other means, is shown."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone as django_timezone

from django_delayed_tasks import Cron, Once, Reschedule, TaskHandler, api
from django_delayed_tasks.api import preview, reschedule_tasks
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.executor.running.deciding import decide
from django_delayed_tasks.models import LATEST, Task
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.schedules.verbs import postponing
from django_delayed_tasks.triggers.values import FIRST, LAST
from tests.store import verbs
from tests.store.verbs import CODE

DAY = timedelta(days=1)
OUT = [
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))), LAST + timedelta.resolution,
    FIRST - timedelta.resolution, datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=timezone(DAY / 2)),
]  # fmt: skip
RANGE = "from 1000-01-02 to 9999-12-30 in UTC"


class Plain(TaskHandler):
    """A handler that is called by hand."""

    biz_code = CODE

    def handle(self, task: Any) -> None:
        """Never called here."""


def command(*arguments: str) -> str:
    """Call the command ``tasks``; return what it wrote."""
    out = StringIO()
    call_command("tasks", *arguments, stdout=out)
    return out.getvalue()


WAYS: dict[str, Callable[[datetime], Any]] = {
    "when": lambda moment: verbs.add("new", moment),
    "many": lambda moment: api.add_tasks([verbs.task("new", moment)]),
    "expires_at": lambda moment: verbs.add("new", expires_at=moment),
    "once": lambda moment: verbs.add("new", trigger=Once(moment)),
    "end": lambda moment: verbs.add("new", trigger=Cron("@daily", end=moment)),
    "reschedule": lambda moment: api.reschedule_task(CODE, "1", moment),
    "due_before": lambda moment: api.get_tasks_by_code(CODE, due_before=moment),
    "preview": preview,
    "command": lambda moment: command("add", CODE, "new", "--when", moment.isoformat()),
    "command expires": lambda moment: command("add", CODE, "new", "--expires", moment.isoformat()),
    "command trigger": lambda moment: command("add", CODE, "new", "--trigger", f"Once('{moment.isoformat()}')"),
    "command reschedule": lambda moment: command("reschedule", CODE, "1", "--when", moment.isoformat()),
    "command until": lambda moment: command("next", "--until", moment.isoformat()),
}


@pytest.mark.parametrize("moment", OUT, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_refuses_the_same(db: None, way: str, moment: datetime) -> None:
    verbs.add("1", DAY)
    with pytest.raises((InvalidTask, CommandError), match=RANGE):
        WAYS[way](moment)
    assert Task.objects.count() == 1


@pytest.mark.parametrize("moment", [FIRST, LAST], ids=str)
@pytest.mark.parametrize("way", ["when", "many", "expires_at", "reschedule", "preview", "command", "command expires"])
def test_every_way_accepts_the_same(db: None, way: str, moment: datetime) -> None:
    verbs.add("1", DAY)
    WAYS[way](moment)


@pytest.mark.parametrize("moment", OUT, ids=str)
def test_a_run_that_returns_it_has_failed(db: None, moment: datetime) -> None:
    verbs.add("1")
    run = verbs.claim_one()
    for outcome in (moment, Reschedule(moment)):
        ending = decide(run, Plain(), outcome, verbs.NOW, verbs.NOW)
        assert ending.outcome is RunOutcome.FAILED
        assert RANGE in ending.error


@pytest.mark.per_database
def test_an_offset_leads_no_further_than_the_last_moment(db: None, frozen: None) -> None:
    for num in ("moved", "postponed"):
        verbs.add(num, LAST - DAY)
    reschedule_tasks(CODE, "moved", by=7 * DAY)
    row = verbs.present("postponed")
    postponing(36_600 * DAY).to_seen("default", [(row.pk, row.version)])
    assert {(row.when, row.claim_at) for row in Task.objects.all()} == {(LAST, LAST)}
    verbs.add("late", trigger=Once(LAST, jitter=DAY))
    assert verbs.present("late").claim_at == LAST


@pytest.mark.parametrize("span", [timedelta.max, timedelta.min, timedelta(days=36_601)])
def test_an_offset_of_more_than_a_hundred_years_is_refused(db: None, span: timedelta) -> None:
    verbs.add("1", DAY)
    for way in (WAYS["when"], WAYS["many"], WAYS["expires_at"], WAYS["reschedule"], WAYS["preview"]):
        with pytest.raises(InvalidTask, match="more than a hundred years"):
            way(span)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="more than a hundred years"):
        reschedule_tasks(CODE, by=span, everything=True)
    ways = (["add", CODE, "2", "--when"], ["add", CODE, "2", "--expires"], ["list", "--late"], ["next", "--until"])
    for arguments in ways:
        with pytest.raises(CommandError, match="more than a hundred years"):
            command(*arguments, "999999999d")


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
def test_a_row_from_elsewhere_is_shown(db: None, zone: str) -> None:
    verbs.add("1", trigger=Cron("@daily"))
    Task._base_manager.update(when=LATEST, claim_at=LATEST, expires_at=LATEST)
    with django_timezone.override(zone):
        for arguments in (["list"], ["next"], ["show", CODE, "1"]):
            assert "9999-12-31 " in command(*arguments)
            assert "9999-12-31T23:59:59.999999+00:00" in json.dumps(json.loads(command(*arguments, "--format", "json")))
    with pytest.raises(InvalidTask, match=RANGE):
        verbs.add("2", Task.objects.get().when)

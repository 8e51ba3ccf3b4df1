"""``manage.py prunetasks``: which runs it deletes, what it asks before, and what it shows."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_delayed_tasks import clock
from django_delayed_tasks.management.commands import prunetasks
from django_delayed_tasks.models import TaskRun
from tests.executor.membership.test_retention import finished
from tests.executor.parts import add
from tests.management.conftest import Call

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def history(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five runs of two codes, in three portions."""
    monkeypatch.setattr(prunetasks, "MAX_PURGED", 2)
    finished("mail", "report", "mail", ago=8 * DAY)
    finished("mail", "report", ago=6 * DAY)


def left() -> list[str]:
    return sorted(TaskRun.objects.values_list("biz_code", flat=True))


def test_dry_run_deletes_nothing(call: Call) -> None:
    assert call("prunetasks", "--older-than", "7d", "--dry-run").out == "3 runs are older.\n"
    assert call("prunetasks", "--older-than", "7d", "--dry-run", "--code", "report").out == "1 run is older.\n"
    assert len(left()) == 5


def test_all_codes_or_one(call: Call) -> None:
    assert call("prunetasks", "--older-than", "7d", "--code", "report", "--yes").out.startswith("Deleted: 1 run in ")
    assert left() == ["mail", "mail", "mail", "report"]
    assert call("prunetasks", "--older-than", "7d", "--yes").out.startswith("Deleted: 2 runs in ")
    assert left() == ["mail", "report"]
    assert call("prunetasks", "--older-than", "1w", "--yes").out == "0 runs are older.\n"


def test_live_tasks_stay(call: Call) -> None:
    add("1", when=-100 * DAY)
    call("prunetasks", "--older-than", "0s", "--yes")
    assert (left(), call("tasks", "show", "code", "1").code) == ([], 0)


def test_it_asks_before(call: Call) -> None:
    with pytest.raises(CommandError, match=r"Delete 3 runs\? This cannot be undone.*--yes"):
        call("prunetasks", "--older-than", "7d")
    assert len(left()) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--older-than"),
        (["--older-than", "week"], "expected a span of time"),
        (["--older-than=-7d"], "must not be negative"),
    ],
)
def test_wrong_arguments(call: Call, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call("prunetasks", *arguments)


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(clock, "monotonic", lambda: 0.0)
    terminal = Terminal()
    call_command("prunetasks", "--older-than", "7d", "--yes", stdout=terminal)
    assert [drawn[33:].strip() for drawn in terminal.getvalue().split("\r")[1:]] == [
        "2 of 3, 2,000/s", "3 of 3, 3,000/s", "3 of 3, 3,000/s \nDeleted: 3 runs in 0.0 s.",
    ]  # fmt: skip

"""``taskhealth``: an exit code and one line."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError

from django_delayed_tasks import pause_queue
from django_delayed_tasks.management.commands import taskhealth
from django_delayed_tasks.states import RunOutcome
from tests.admin.rows import CODE, MINUTE, NOW, executor, task
from tests.stats.fills import ended

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen")]


def health(*arguments: str) -> tuple[int, str]:
    """The exit code, and the line."""
    out = StringIO()
    try:
        call_command("taskhealth", *arguments, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue().strip()
    return 0, out.getvalue().strip()


def late(seconds: float, queue: str = "mail") -> None:
    when = NOW - timedelta(seconds=seconds)
    task(f"{queue} {seconds}", when, claim_at=when, queue=queue)


def test_healthy() -> None:
    executor(codes=[CODE])
    late(60)
    assert health() == (0, "OK: 1 alive, the latest task is late by 1 min (limit 60 s)")


def test_what_was_measured() -> None:
    executor(codes=[CODE])
    late(4)
    assert health("--max-late", "90", "--max-failed", "3") == (
        0, "OK: 1 alive, no task is late (limit 90 s), 0 runs failed in the last hour (limit 3)",
    )  # fmt: skip
    late(15)
    assert health()[1] == "OK: 1 alive, the latest task is late by 15 s (limit 60 s)"


def test_a_code_that_no_executor_of_its_queue_has_a_handler_for() -> None:
    executor(codes=["other"])
    task("1", NOW - MINUTE, claim_at=NOW + timedelta(seconds=36), queue="mail")
    line = f"UNHEALTHY: tasks of {CODE} wait, and no executor of their queue has a handler for them"
    assert health() == (1, line)
    assert health("--queue", "gpu")[0] == 0
    pause_queue("mail")
    assert health()[0] == 0


def test_a_queue_with_due_tasks_and_no_executor() -> None:
    executor(codes=[CODE], queues=["mail"])
    task("later", queue="gpu")
    assert health()[0] == 0
    late(15, "gpu")
    assert health() == (1, "UNHEALTHY: queue gpu has no executor (1 task due, the first for 15 s)")
    assert health("--queue", "mail")[0] == 0
    pause_queue("gpu")
    assert health()[0] == 0


def test_executors() -> None:
    assert health() == (1, "UNHEALTHY: 0 executors alive, 1 needed")
    assert health("--executors", "0")[0] == 0
    executor("web1")
    executor("web2", expires_at=NOW - MINUTE)
    assert health()[0] == 0
    assert health("--executors", "2") == (1, "UNHEALTHY: 1 executor alive, 2 needed")


def test_late() -> None:
    executor(codes=[CODE])
    late(61)
    late(600, "slow")
    late_mail = "queue mail late by 1 min 1 s (limit 60 s)"
    assert health() == (1, f"UNHEALTHY: queue slow late by 10 min (limit 60 s); {late_mail}")
    assert health("--max-late", "61")[1] == "UNHEALTHY: queue slow late by 10 min (limit 61 s)"
    for enough in ("600", "1e300", "inf"):
        assert health("--max-late", enough)[0] == 0
    pause_queue("slow")
    assert health("--max-late", "61")[0] == 0


def test_only_some_queues() -> None:
    executor("web1", queues=["mail"])
    late(600, "slow")
    assert health("--queue", "mail")[0] == 0
    unserved = "queue slow has no executor (1 task due, the first for 10 min)"
    assert health("--queue", "slow") == (1, f"UNHEALTHY: 0 executors alive, 1 needed; {unserved}")
    assert health("--queue", "mail", "--queue", "slow")[0] == 1


def test_failed() -> None:
    executor()
    ended(11, NOW - MINUTE, outcome=RunOutcome.FAILED, error="x")
    ended(90, NOW - MINUTE, outcome=RunOutcome.RETRIED, error="x")
    ended(90, NOW - MINUTE, outcome=RunOutcome.LOST, error="its executor died")
    ended(90, NOW - 90 * MINUTE, outcome=RunOutcome.FAILED, error="x")
    assert health()[0] == 0
    assert health("--max-failed", "11")[0] == 0
    assert health("--max-failed", "10") == (1, "UNHEALTHY: 11 runs failed in the last hour (limit 10)")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError("gone away\nand more"), "gone away"),
        (InterfaceError("the connection is closed"), "the connection is closed"),
        (InterfaceError(), "InterfaceError"),
    ],
)
def test_no_database(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def refuse(using: str | None) -> None:
        raise error

    monkeypatch.setattr(taskhealth, "take_snapshot", refuse)
    assert health() == (3, f"UNKNOWN: the database cannot be asked: {said}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-late", "-1"],
        ["--max-late", "nan"],
        ["--max-limited", "-1"],
        ["--max-limited", "nan"],
        ["--database", "nowhere"],
    ],
)
def test_wrong_options(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        health(*arguments)

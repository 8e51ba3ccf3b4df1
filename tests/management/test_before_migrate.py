"""Commands before ``manage.py migrate``: they say that it comes first, with their own exit codes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError
from django.db import DatabaseError, OperationalError, connections

from django_delayed_tasks.management import shared
from tests.executor.parts import handler_of
from tests.management.conftest import Call
from tests.test_database_checks import GOOD, ExtraDatabase, extra_database, sqlite  # noqa: F401

pytestmark = pytest.mark.per_database

FIRST = "unapplied migrations on database 'extra': 0001_initial, "
LAST = "Run `manage.py migrate` first."


@pytest.fixture
def unmigrated(extra_database: ExtraDatabase, tmp_path: Path) -> Iterator[None]:  # noqa: F811
    """The database of the tasks, which is empty."""
    with extra_database(sqlite(tmp_path / "x.sqlite3", **GOOD)):
        yield


@pytest.mark.usefixtures("unmigrated")
@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks", "list"],
        ["tasks", "add", "code", "1"],
        ["taskstatus"],
        ["pausequeue"],
        ["pausequeue", "mail"],
        ["pausequeue", "mail", "--resume"],
        ["prunetasks", "--older-than", "7d"],
        ["starttask", "--drain"],
    ],
)
def test_migrate_comes_first(call: Call, arguments: list[str]) -> None:
    handler_of(lambda task: None)
    with pytest.raises(CommandError) as caught:
        call(*arguments)
    assert str(caught.value).startswith(FIRST)
    assert str(caught.value).endswith(LAST)
    assert caught.value.returncode == 1


@pytest.mark.usefixtures("unmigrated")
def test_migrate_comes_before_a_mutex(call: Call) -> None:
    with pytest.raises(CommandError, match=f"^{FIRST}.*{LAST}$"):
        call("runmutex", "nightly", command=["true"])


@pytest.mark.usefixtures("unmigrated")
def test_taskhealth_cannot_know(call: Call) -> None:
    called = call("taskhealth")
    assert called.code == 3
    assert called.out.startswith(f"UNKNOWN: the database cannot be asked: {FIRST}")
    assert called.out.endswith(f"{LAST}\n")


@pytest.mark.usefixtures("unmigrated")
def test_an_unreachable_database_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(alias: str) -> list[str]:
        asked.append(alias)
        raise DatabaseError("gone away")

    monkeypatch.setattr(shared, "unapplied", refuse)
    connections["extra"].close()
    assert shared.text_of(OperationalError("no route to host"), None) == "no route to host"
    assert asked == []
    connections["extra"].connect()
    assert shared.text_of(OperationalError("gone away first"), None) == "gone away first"
    assert asked == ["extra"]

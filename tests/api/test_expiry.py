"""Tasks that expire before they could start: refused if that is so at any time, and warned of if it is so now."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import Task
from tests.function_tasks import functions
from tests.store import verbs
from tests.store.verbs import HOUR, NOW

pytestmark = pytest.mark.usefixtures("db", "frozen")
DAILY = "Cron('0 3 * * *')"

NEVER: dict[str, dict[str, Any]] = {
    "past offset": {"expires_at": -HOUR},
    "offset before that of its time": {"when": 2 * HOUR, "expires_at": HOUR},
    "moment before its time": {"when": NOW + 2 * HOUR, "expires_at": NOW + HOUR},
    "moment before its time, both past": {"when": NOW - HOUR, "expires_at": NOW - 2 * HOUR},
    "before the first time of its trigger": {"trigger": DAILY, "expires_at": NOW + HOUR},
}


@pytest.mark.parametrize("fields", NEVER.values(), ids=NEVER)
def test_one_that_can_never_start_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=r"^expires_at=") as caught:
        verbs.add(**fields)
    assert caught.value.field == "expires_at"
    with pytest.raises(InvalidTask, match=r"^expires_at="):
        api.add_tasks([verbs.task("1"), verbs.task("2", **fields)])
    assert not Task.objects.exists()


NOT_NOW: dict[str, dict[str, Any]] = {
    "past moment": {"expires_at": NOW - HOUR},
    "past moment after its time": {"when": NOW - 2 * HOUR, "expires_at": NOW - HOUR},
    "moment before its time that is an offset": {"when": 2 * HOUR, "expires_at": NOW + HOUR},
    "offset before its time that is a moment": {"when": NOW + 2 * HOUR, "expires_at": HOUR},
}


@pytest.mark.parametrize("fields", NOT_NOW.values(), ids=NOT_NOW)
def test_one_that_has_expired_is_warned_of(fields: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The clock of this host may be wrong, and a deadline may pass while the task is added."""
    verbs.add(**fields)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "test 1 expires at" in record.getMessage()
    assert "it will not be started" in record.getMessage()
    assert verbs.row()


IN_TIME: dict[str, dict[str, Any]] = {
    "at its time": {"when": NOW + HOUR, "expires_at": NOW + HOUR},
    "after it": {"when": HOUR, "expires_at": 2 * HOUR},
    "soon": {"expires_at": timedelta(seconds=1)},
    "now": {"expires_at": timedelta()},
    "a day of its trigger": {"trigger": DAILY, "expires_at": NOW + timedelta(days=2)},
    "never": {},
}


@pytest.mark.parametrize("fields", IN_TIME.values(), ids=IN_TIME)
def test_one_that_may_start_is_accepted(fields: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    verbs.add(**fields)
    assert caplog.records == []


def test_a_function(caplog: pytest.LogCaptureFixture) -> None:
    give: Any = functions.give
    for chosen in ({"expires": -HOUR}, {"run_after": 2 * HOUR, "expires": HOUR}):
        with pytest.raises(InvalidTask, match=r"^expires="):
            give.using(**chosen).enqueue(1)
    give.using(expires=NOW - HOUR).enqueue(1)
    assert "it will not be started" in caplog.text

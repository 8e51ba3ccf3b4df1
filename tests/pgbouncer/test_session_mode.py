"""Through PgBouncer in session mode all is as without it, notices included."""

import pytest

from django_delayed_tasks import Task, add_task
from django_delayed_tasks.store import notices
from django_delayed_tasks.store.notices import postgres, wakeup
from tests.executor.parts import executing, handler_of
from tests.listeners import listening
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("through_sessions")


def test_an_executor_hears_what_other_processes_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "process", iter(str(number) for number in range(10**6)).__next__)
    monkeypatch.setattr(postgres, "ECHO", 30.0)
    monkeypatch.setattr(wakeup, "wake", lambda: None)
    ran: list[str] = []
    handler_of(lambda given: ran.append(given.biz_num))
    with executing(poll_interval=600.0):
        wait_until(listening)
        for number in ("1", "2", "3"):
            add_task(Task(biz_code="code", biz_num=number))
            wait_until(lambda number=number: number in ran)  # type: ignore[misc]

"""The thread of the run log is started with the executor: later, the system may grant no further thread."""

from threading import Event, Thread
from typing import Any

import pytest

from django_delayed_tasks import Fail
from tests.executor.parts import add, executing, handler_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_failure_is_reported_although_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Event()
    handler_of(lambda task: Fail("no"), on_failed=lambda self, task, error: told.set())

    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    with executing(threads=1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(Thread, "start", refuse)
            add()
            assert told.wait(30)
        assert executor.stop()

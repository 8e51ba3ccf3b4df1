"""What wakes the thread of the lanes if no handler is limited when the executor starts."""

from threading import Event

import pytest
from django.db import transaction

from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.executor.parts import add, executing, handler_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_due_tasks_wake_it() -> None:
    """As those of a handler that this process gets to know later."""
    ran = Event()
    with executing():
        handler_of(lambda task: ran.set(), max_concurrent=1)
        add()
        assert ran.wait(30)


def test_it_finds_blocked_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that an executor which is dead has left; no agenda shows them."""
    monkeypatch.setattr(lanes, "SEARCH_EVERY", 0.1)
    ran = Event()
    with executing():
        handler_of(lambda task: ran.set(), max_concurrent=1, concurrency_key=lambda self, task: "one")
        with transaction.atomic():
            add()
            Task._base_manager.update(lane=blocked_lane("code", "one"))
        assert ran.wait(30)

"""The thread of the lanes sleeps at first if no handler is limited, and no task has to wait for that."""

import threading
from threading import Event
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks.executor import executor as module
from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.executor.parts import add, executing, handler_of

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 600.0


def test_it_connects_at_once_if_a_handler_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later, the other threads may have taken the last connections that the server grants."""
    monkeypatch.setattr(module, "SEARCH_EVERY", LONG)
    searched = Event()

    def blocked_levels(alias: str) -> list[Any]:
        if threading.current_thread().name == "lanes":
            searched.set()
        return []

    monkeypatch.setattr(lanes, "blocked_levels", blocked_levels)
    handler_of(lambda task: None, max_concurrent=1)
    with executing(poll_interval=30.0):
        assert searched.wait(30)


def test_due_tasks_wake_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a handler that this process gets to know later."""
    monkeypatch.setattr(module, "SEARCH_EVERY", LONG)
    ran = Event()
    with executing():
        handler_of(lambda task: ran.set(), max_concurrent=1)
        add()
        assert ran.wait(30)


def test_it_finds_blocked_tasks_when_it_has_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that an executor which is dead has left; no agenda shows them."""
    monkeypatch.setattr(module, "SEARCH_EVERY", 0.1)
    monkeypatch.setattr(lanes, "SEARCH_EVERY", 0.1)
    ran = Event()
    with executing():
        handler_of(lambda task: ran.set(), max_concurrent=1, concurrency_key=lambda self, task: "one")
        with transaction.atomic():
            add()
            Task.objects.update(lane=blocked_lane("code", "one"))
        assert ran.wait(30)

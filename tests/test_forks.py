"""What a process has started is forgotten in its children: the parts that need no fork."""

from threading import Event, Thread

import pytest

from django_delayed_tasks.support import forks

pytestmark = pytest.mark.per_database

LONG_ENOUGH = 0.3
"""Seconds for which a thread is given the opportunity to continue too early."""


def test_no_thread_of_a_child_continues_before_all_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that it acquires meanwhile would be forgotten along with its parent's, and not be renewed."""
    happened: list[str] = []
    begun, both = Event(), Event()

    def look() -> None:
        forks.notice()
        happened.append("continues")

    def forget() -> None:
        begun.set()
        assert both.wait(30)
        second.join(LONG_ENOUGH)
        happened.append("forgotten")

    monkeypatch.setattr(forks, "_forgetting", [forget])
    monkeypatch.setattr(forks, "pid", 0)  # as in a child in which no hook was called
    first, second = Thread(target=look, daemon=True), Thread(target=look, daemon=True)
    first.start()
    assert begun.wait(30)
    second.start()
    both.set()
    for thread in (first, second):
        thread.join(30)
    assert happened == ["forgotten", "continues", "continues"]

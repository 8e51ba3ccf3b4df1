"""Errors of Python around permits: no good run fails for one, and no other code waits for it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError

from django_delayed_tasks.executor.limits import relay as relay_module
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
from tests.store import verbs


class Lateness:
    """The attribute of a handler that is computed, by code that may fail."""

    is_broken = False

    def __get__(self, instance: Any, owner: Any = None) -> None:
        if self.is_broken:
            raise ZeroDivisionError


@pytest.fixture
def handing_on(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> LanesBench:
    """Two slots, both held, and tasks that wait for them."""
    monkeypatch.setattr(Capacity, "expected_ends", lambda self, handler: 4)
    limited(max_concurrent=2, max_lateness=60.0, longest_lateness=Lateness())
    add_some(6)
    bench.turn()
    bench.tick()
    assert bench.numbers == ["0", "1"]
    return bench


def settle(bench: LanesBench, *numbers: str) -> None:
    """End runs as a worker does, and settle them as an executor does."""
    tasks = [bench.run_of(number) for number in numbers]
    bench.held.end([task.claim for task in tasks], ())
    bench.settler.settle([verbs.done(task) for task in tasks])
    bench.ended += tasks


def breaks_in_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lateness, "is_broken", True)


def breaks_in_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "claim_in_slots", lambda *arguments: 1 / 0)


def is_refused_by_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise DataError("out of range")

    monkeypatch.setattr(relay_module, "claim_in_slots", refuse)


@pytest.mark.parametrize("breaks", [breaks_in_the_look, breaks_in_the_claim, is_refused_by_the_database])
def test_runs_that_are_done_are_settled_as_done(
    handing_on: LanesBench, monkeypatch: pytest.MonkeyPatch, breaks: Callable[[pytest.MonkeyPatch], None]
) -> None:
    breaks(monkeypatch)
    settle(handing_on, "0", "1")
    assert [verbs.outcomes(number, "code") for number in ("0", "1")] == [[RunOutcome.DONE]] * 2
    monkeypatch.undo()
    monkeypatch.setattr(Capacity, "expected_ends", lambda self, handler: 4)
    handing_on.poller.poll()
    handing_on.tick()
    assert handing_on.numbers == ["2", "3"], "their slots are free"


def test_no_other_code_waits_for_one_whose_attributes_raise(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own tasks end as those of an unlimited code do: visibly, to be tried again some times."""
    limited(max_concurrent=2, max_lateness=60.0, longest_lateness=Lateness())
    limited("other", max_concurrent=2)
    add("bad", priority=1)
    add("good", "other")
    breaks_in_the_look(monkeypatch)
    bench.turn()
    assert bench.numbers == ["good"]
    bad = Task.objects.get(biz_num="bad")
    assert (bad.status, bad.rescues) == (TaskStatus.PENDING, 1)
    assert "ZeroDivisionError" in bad.last_error

"""A claim that failed is not taken for one that is being made: its task is found again at once."""

from typing import Any

import pytest
from django.db import OperationalError

from django_delayed_tasks.executor.limits import lanes as lanes_module
from django_delayed_tasks.executor.limits import relay as relay_module
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.store.claiming.request import Outpaced
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.store import verbs


def test_of_the_lanes(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise Outpaced

    limited(max_concurrent=1)
    add_some(1)
    bench.poller.poll()
    with monkeypatch.context() as patched:
        patched.setattr(lanes_module, "claim_chosen", fail)
        bench.tick()
    bench.tick()
    assert bench.numbers == ["0"]


@pytest.mark.parametrize("error", [OperationalError("gone away"), Outpaced()])
def test_in_a_slot_that_was_to_be_handed_on(
    bench: LanesBench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Without its task, the lane would seem to be empty."""
    failed: list[Exception] = []

    def fail(*arguments: Any) -> Any:
        failed.append(error)
        raise error

    monkeypatch.setattr(Capacity, "expected_ends", lambda self, handler: 4)
    limited(max_concurrent=1)
    add_some(2)
    bench.turn()
    bench.tick()
    settlement = verbs.done(bench.run_of("0"))
    monkeypatch.setattr(relay_module, "claim_in_slots", fail)
    bench.settler.write([settlement])
    assert failed
    bench.end_run("0", settlement)
    bench.tick()
    assert bench.numbers == ["1"]

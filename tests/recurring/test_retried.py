"""Attempts after the first: which time they stand for, and when they are not made any more."""

from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.states import NextState
from django_delayed_tasks.triggers import Interval
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db


class TestRetries:
    """They belong to a run that was in time."""

    @pytest.mark.parametrize("how", [{"misfire": "skip"}, {"grace": 30}])
    def test_are_not_late(self, machine: Machine, how: dict[str, Any]) -> None:
        machine.answers = [ValueError("no")]
        machine.handler.backoff = lambda attempt: 5 * MINUTE  # type: ignore[method-assign]
        machine.add(Interval(minutes=10, **how))
        assert machine.run_at(10) is NextState.RETRY
        assert machine.run_at(15) is NextState.RECUR
        assert [when for when, _ in machine.seen] == [10, 10]

    def test_stand_for_what_has_come_to_be_missed_meanwhile(self, machine: Machine) -> None:
        machine.answers = [ValueError("no")] * 2
        machine.add()
        for minute in (47, 49, 53):
            machine.run_at(minute)
        assert ([when for when, _ in machine.seen], machine.next) == ([40, 40, 50], 60)

    def test_of_one_that_catches_up_stand_for_the_same_time(self, machine: Machine) -> None:
        machine.answers = [ValueError("no")]
        machine.add(Interval(minutes=10, misfire="catch_up"))
        machine.run_at(27)
        while machine.run_at(31):
            pass
        assert ([when for when, _ in machine.seen], machine.next) == ([10, 10, 20, 30], 40)

    def test_are_over_when_a_pause_ends(self, machine: Machine) -> None:
        """The next time is not in time because of an attempt that was made for the one before."""
        machine.answers = [ValueError("no")]
        machine.add(Interval(minutes=10, misfire="skip"))
        assert machine.run_at(10) is NextState.RETRY
        with frozen_at(NOON + 12 * MINUTE):
            assert api.pause_task("recurring", "1")
            assert api.resume_task("recurring", "1")
        assert machine.next == 20
        assert machine.run_at(25) is NextState.RECUR
        assert ([when for when, _ in machine.seen], machine.next) == ([10], 30)

    def test_but_may_expire(self, machine: Machine) -> None:
        machine.answers = [ValueError("no")]
        machine.add(trigger=None, when=NOON, expires_at=NOON + MINUTE / 2)
        assert machine.run_at(0) is NextState.RETRY
        assert machine.run_at(1) is NextState.GONE
        assert len(machine.seen) == 1

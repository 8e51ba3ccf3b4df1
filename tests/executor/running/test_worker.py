"""A current run, as the worker and the thread that watches it see it."""

from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.running.current_run import CurrentRun
from tests.executor.parts import add, claim, registered

pytestmark = pytest.mark.django_db


@pytest.fixture
def tasks() -> list[Any]:
    for num in "abc":
        add(num)
    return sorted(claim(registered()), key=str)


def running(tasks: list[Any]) -> CurrentRun:
    return CurrentRun(tasks, clock.monotonic())


@pytest.mark.parametrize(("count", "name"), [(1, "code a"), (2, "code a and 1 more"), (3, "code a and 2 more")])
def test_its_name(count: int, name: str, tasks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = running(tasks[:count])
    monkeypatch.setattr(clock, "monotonic", lambda: run.began + 7.4)
    assert (str(run), run.with_age) == (name, f"{name} (for 7 s)")
    run.hand_over(run.tasks)
    assert str(run) == name


def test_it_counts_from_when_it_begins(tasks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = running(tasks)
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    assert run.begin()
    assert run.began == 1000.0


def test_what_is_abandoned_neither_begins_nor_hands_over(tasks: list[Any]) -> None:
    run = running(tasks)
    assert run.abandon()
    assert not run.begin()
    assert not run.hand_over(tasks[:1])
    assert run.tasks == tasks


def test_what_is_handed_over_is_no_part_of_it_any_more(tasks: list[Any]) -> None:
    run = running(tasks)
    assert run.hand_over(tasks[1:])
    assert run.tasks == tasks[:1]
    assert run.hand_over([])
    assert run.tasks == tasks[:1]


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_whose_end_is_being_noted_is_not_settled_again(tasks: list[Any], count: int) -> None:
    """Its tasks would be reported twice."""
    run = running(tasks)
    assert run.begin()
    assert run.hand_over(tasks[:count])
    assert not run.abandon()
    assert not run.is_abandoned

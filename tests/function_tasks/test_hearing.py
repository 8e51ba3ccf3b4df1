"""What a run makes only if something reads it: a result, two signals, and two lines of the framework's log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.utils.log import RequireDebugTrue

from django_delayed_tasks.function_tasks import running
from django_delayed_tasks.function_tasks.families import family_of
from tests.executor.parts import drain
from tests.function_tasks import functions
from tests.function_tasks.framework import TaskResultStatus, task_finished, task_started

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def as_in_production() -> Iterator[None]:
    """Let the framework's log reach a handler as Django's own of the console; pytest adds its own before the test."""
    handler = logging.NullHandler(logging.INFO)
    handler.addFilter(RequireDebugTrue())
    logger: logging.Logger = family_of(functions.add_up).signals.logger
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate, level = before
        logger.setLevel(level)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results that runs have made."""
    results: list[Any] = []
    make = running._current_result

    def note(*given: Any) -> Any:
        results.append(make(*given))
        return results[-1]

    monkeypatch.setattr(running, "_current_result", note)
    return results


def run_both() -> None:
    """Run a function and a coroutine function; check what their results say afterwards."""
    enqueued: list[Any] = [functions.add_up.enqueue(1, 2, start=3), functions.double.enqueue(4)]
    with as_in_production():
        drain()
    for result in enqueued:
        result.refresh()
        assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 1)
    assert [result.return_value for result in enqueued] == [6, 8]


def test_with_djangos_own_configuration_a_run_makes_no_result(made: list[Any]) -> None:
    run_both()
    assert made == []


def test_in_debug_mode_it_does(made: list[Any], settings: Any) -> None:
    settings.DEBUG = True
    run_both()
    assert len(made) == 2


@pytest.mark.parametrize("signal", [task_started, task_finished])
def test_for_a_receiver_it_does(made: list[Any], signal: Any) -> None:
    heard: list[Any] = []

    def receive(sender: Any, task_result: Any, **rest: Any) -> None:
        heard.append(task_result)

    signal.connect(receive)
    try:
        run_both()
    finally:
        signal.disconnect(receive)
    assert len(made) == 2
    assert {result.id for result in heard} == {result.id for result in made}


def test_for_a_context_it_does(made: list[Any]) -> None:
    functions.describe.enqueue()
    with as_in_production():
        drain()
    assert len(made) == 1

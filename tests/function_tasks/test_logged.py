"""Which lines of the framework's log would get anywhere: the others are not made."""

import logging
from typing import Any

import pytest
from django.utils.log import RequireDebugTrue

from django_delayed_tasks.function_tasks.running import is_logged


@pytest.fixture
def lone() -> logging.Logger:
    """A logger that is not registered: pytest adds its handlers to all that are."""
    return logging.Logger("lone", logging.INFO)


def for_debugging() -> logging.Handler:
    """A handler as Django's own of the console."""
    handler = logging.NullHandler(logging.INFO)
    handler.addFilter(RequireDebugTrue())
    return handler


def test_a_line_that_no_handler_takes(lone: logging.Logger, settings: Any) -> None:
    assert not is_logged(lone)
    lone.addHandler(logging.NullHandler(logging.ERROR))
    lone.addHandler(for_debugging())
    assert not is_logged(lone)
    settings.DEBUG = True
    assert is_logged(lone)


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO])
def test_a_line_that_a_handler_may_take(lone: logging.Logger, level: int) -> None:
    lone.addHandler(logging.NullHandler(level))
    assert is_logged(lone)


def test_a_line_below_the_level_of_the_logger() -> None:
    quiet = logging.Logger("quiet", logging.WARNING)
    quiet.addHandler(logging.NullHandler())
    assert not is_logged(quiet)


def test_the_handlers_of_parents_count_as_far_as_lines_go(lone: logging.Logger) -> None:
    lone.addHandler(logging.NullHandler())
    child = logging.Logger("lone.child")
    child.parent = lone
    assert is_logged(child)
    child.propagate = False
    assert not is_logged(child)

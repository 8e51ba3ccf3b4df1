"""A log that raises nothing, whatever a project's filters do; and which lines would get anywhere."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils.log import RequireDebugTrue

from django_delayed_tasks.support.log_handlers import is_logged
from django_delayed_tasks.support.logs import Log

NAME = "tests.test_logs"


class Broken(logging.Filter):
    """A filter that raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def filter(self, record: logging.LogRecord) -> bool:
        raise self.error


@pytest.fixture(params=[RuntimeError("broken"), SystemExit(3)], ids=repr)
def broken(request: pytest.FixtureRequest) -> Iterator[None]:
    refusing = Broken(request.param)
    logging.getLogger(NAME).addFilter(refusing)
    yield
    logging.getLogger(NAME).removeFilter(refusing)


def test_it_prints_what_a_filter_raises(broken: None, capsys: pytest.CaptureFixture[str]) -> None:
    Log(NAME).warning("the %s", "text")
    Log(NAME).exception("the text")
    printed = capsys.readouterr().err
    assert printed.count("--- Logging error ---") == 2
    assert "broken" in printed or "SystemExit" in printed


def test_a_level_that_cannot_be_asked_for_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(level: int) -> bool:
        raise RuntimeError("no level")

    monkeypatch.setattr(logging.getLogger(NAME), "isEnabledFor", fail)
    assert not Log(NAME).isEnabledFor(logging.ERROR)
    assert "no level" in capsys.readouterr().err


def test_an_interrupt_passes() -> None:
    refusing = Broken(KeyboardInterrupt())
    logging.getLogger(NAME).addFilter(refusing)
    try:
        with pytest.raises(KeyboardInterrupt):
            Log(NAME).error("the text")
    finally:
        logging.getLogger(NAME).removeFilter(refusing)


def test_records_are_as_those_of_any_logger(caplog: pytest.LogCaptureFixture) -> None:
    """They name the caller's function, and keep what else was given."""
    Log(NAME).warning("one", extra={"biz_num": "7"})
    Log(NAME).log(logging.ERROR, "two", exc_info=ValueError("no"))
    first, second = caplog.records
    name = "test_records_are_as_those_of_any_logger"
    assert (first.name, first.funcName, vars(first)["biz_num"]) == (NAME, name, "7")
    assert (second.levelname, second.funcName) == ("ERROR", name)
    assert second.exc_info
    assert isinstance(second.exc_info[1], ValueError)


@pytest.fixture
def lone() -> logging.Logger:
    """A logger that is not registered: pytest adds its handlers to all that are."""
    return logging.Logger(f"{NAME}.lone", logging.INFO)


def for_debugging() -> logging.Handler:
    """A handler as Django's own of the console."""
    handler = logging.NullHandler(logging.INFO)
    handler.addFilter(RequireDebugTrue())
    return handler


def test_a_line_that_no_handler_takes_is_not_logged(lone: logging.Logger, settings: Any) -> None:
    assert not is_logged(lone, logging.INFO)
    lone.addHandler(logging.NullHandler(logging.ERROR))
    lone.addHandler(for_debugging())
    assert not is_logged(lone, logging.INFO)
    settings.DEBUG = True
    assert is_logged(lone, logging.INFO)


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO])
def test_a_line_that_a_handler_may_take_is_logged(lone: logging.Logger, level: int) -> None:
    lone.addHandler(logging.NullHandler(level))
    assert is_logged(lone, logging.INFO)
    assert not is_logged(lone, logging.DEBUG)


def test_the_handlers_of_parents_count_as_far_as_lines_go(lone: logging.Logger) -> None:
    lone.addHandler(logging.NullHandler())
    child = logging.Logger(f"{NAME}.lone.child")
    child.parent = lone
    assert is_logged(child, logging.INFO)
    child.propagate = False
    assert not is_logged(child, logging.INFO)


def test_a_filter_of_the_logger_sees_every_line(lone: logging.Logger) -> None:
    lone.addFilter(lambda record: False)
    assert is_logged(lone, logging.INFO)


def test_a_tool_that_replaces_the_method_sees_every_line(lone: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda self, record: None)
    assert is_logged(lone, logging.INFO)

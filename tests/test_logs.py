"""A log that raises nothing, whatever a project's filters do."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from django_delayed_tasks.support.logs import Log, logger_of

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


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("the %s", ("name\nforged",)),
        ("the %(x)s of %(y)d", ({"x": "name\nforged", "y": 3},)),
        ("the %s", ({"x": "a\nb"},)),
    ],
)
def test_what_is_not_seen_is_escaped_in_arguments_of_all_forms(
    message: str, given: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    logger_of(NAME).warning(message, *given)
    assert "\n" not in caplog.messages[0]


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

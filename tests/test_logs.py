"""A log that raises nothing, whatever a project's filters do."""

import logging
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from django_delayed_tasks.support.logs import MAX_MESSAGE, Log, brief, logger_of

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


LONG = "begin " + 5_000_000 * "x" + " end"


def caught(error: BaseException, cause: BaseException | None = None, note: str = "") -> BaseException:
    """Return the exception as it is after it was raised."""
    if note:
        error.add_note(note)
    try:
        raise error from cause
    except BaseException as found:
        return found


def chained() -> BaseException:
    """Return an exception during whose handling another one was raised."""
    try:
        try:
            raise ValueError(LONG)
        finally:
            raise KeyError("short")
    except KeyError as error:
        return error


LONG_ONES: dict[str, BaseException] = {
    "message": caught(ValueError(LONG)),
    "no text": caught(KeyError(LONG)),
    "cause": caught(ValueError("short"), caught(KeyError(LONG))),
    "context": chained(),
    "note": caught(ValueError("short"), note=LONG),
    "group": caught(ExceptionGroup("short", [KeyError("short"), ExceptionGroup("inner", [ValueError(LONG)])])),
    "name of a group": caught(BaseExceptionGroup(LONG, [KeyboardInterrupt("short")])),
    "exit": caught(SystemExit(LONG)),
}


@pytest.mark.parametrize("name", LONG_ONES)
def test_a_message_of_megabytes_is_cut(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever it is printed: with the traceback, or in the line."""
    error = LONG_ONES[name]
    frames = [line for line in "".join(traceback.format_exception(error)).splitlines() if 'File "' in line]
    Log(NAME).error("it failed: %s", error, exc_info=error)
    try:
        raise error
    except BaseException:
        Log(NAME).exception("it failed")
    one, other = caplog.records
    for text in (logging.Formatter().format(one), logging.Formatter().format(other)):
        assert len(text) < 5 * MAX_MESSAGE
        assert "characters left out" in text
        assert "end" in text
        assert all(frame in text for frame in frames)
    assert one.exc_info
    assert one.exc_info[0]
    assert (one.exc_info[0].__module__, one.exc_info[0].__qualname__) == (
        type(error).__module__, type(error).__qualname__,
    )  # fmt: skip


def test_other_exceptions_are_logged_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    error = caught(ValueError("x" * MAX_MESSAGE), caught(KeyError("short")), note="a note")
    assert brief(error) is error
    Log(NAME).error("it failed", exc_info=error)
    assert caplog.records[0].exc_info == (ValueError, error, error.__traceback__)


def test_an_exception_without_a_text() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    error = caught(Silent())
    assert brief(error) is error

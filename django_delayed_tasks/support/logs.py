"""Loggers whose lines cannot be forged, and that do not raise in threads that must not end.

What a project's filter raises is printed, as ``Handler.handleError`` does. Exceptions with messages of megabytes are
logged with shorter ones.
"""

import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from django_delayed_tasks.support.visible import unseen_in, visible, visible_lines

MAX_MESSAGE = 20_000
"""Characters of the message of an exception in the log, and of an error in the history."""
_INDENT = "    "


def logger_of(name: str) -> logging.Logger:
    """Return the logger of this name, whose records show names, hosts and errors without what is not seen."""
    logger = logging.getLogger(name)
    logger.addFilter(_shown)
    return logger


class Log(logging.LoggerAdapter[logging.Logger]):
    """The logger of this name, none of whose methods raises (but for KeyboardInterrupt, in the main thread)."""

    def __init__(self, name: str) -> None:
        super().__init__(logger_of(name))

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        try:
            if (given := kwargs.get("exc_info")) and self.logger.isEnabledFor(level):
                kwargs["exc_info"] = _brief_info(given)
            args = tuple(brief(arg) if isinstance(arg, BaseException) else arg for arg in args)
            self.logger.log(level, msg, *args, stacklevel=2, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException:
            _print()

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        """Return whether a record of this level would be logged; False if that raises."""
        try:
            return self.logger.isEnabledFor(level)
        except KeyboardInterrupt:
            raise
        except BaseException:
            _print()
            return False


def _shown(record: logging.LogRecord) -> bool:
    """Write escapes into the arguments and the traceback of a record that has what is not seen; a filter of loggers."""
    with suppress(Exception):  # arguments that do not fit the message: the handler of the log reports it
        if record.args and unseen_in(record.getMessage()):
            record.args = _shown_arguments(record.args)
        if record.exc_info and record.exc_info[1] and not record.exc_text:
            record.exc_text = _shown_traceback(record.exc_info[1])
    return True


def _shown_arguments(given: Any) -> Any:
    """Return the arguments of a message, which are a tuple, or what was given as the only one for ``%(name)s``."""
    if isinstance(given, Mapping):
        return {name: _shown_argument(value) for name, value in given.items()}
    return tuple(map(_shown_argument, given))


def _shown_argument(value: Any) -> Any:
    return visible(text) if unseen_in(text := str(value)) else value


def _shown_traceback(error: BaseException) -> str | None:
    """Return the traceback, with later lines of a message indented; None if it needs no change."""
    messages = [text for one in _related(error, set()) for text in (str(one), *getattr(one, "__notes__", ()))]
    if not any(map(unseen_in, messages)):
        return None
    text = "".join(traceback.format_exception(error)).rstrip("\n")
    for message in messages:
        if "\n" in message:
            text = text.replace(message, message.replace("\n", f"\n{_INDENT}"))
    return visible_lines(text)


def _related(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """Yield the error, and those that its traceback shows before or in it."""
    if error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
            yield from _related(other, seen)


def _brief_info(given: Any) -> Any:
    error = given if isinstance(given, BaseException) else (given if isinstance(given, tuple) else sys.exc_info())[1]
    return error and (type(shorter := brief(error)), shorter, error.__traceback__)


def brief(error: BaseException, depth: int = 10) -> BaseException:
    """Return the exception or, if its message is as long as no log should be, another one that looks like it.

    So for what it was raised from, and for the exceptions of a group.
    """
    message, parts = _message_of(error), error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    others = {id(one): one for one in (error.__cause__, error.__context__, *parts) if one is not None}
    shorter = {key: brief(one, depth - 1) for key, one in others.items()} if depth else others
    texts = [message, *(note for note in getattr(error, "__notes__", ()) if isinstance(note, str))]
    if all(shorter[key] is others[key] for key in others) and max(map(len, texts)) <= MAX_MESSAGE:
        return error
    alike = _alike(error, without_middle(message), [shorter[id(part)] for part in parts])
    alike.__cause__, alike.__context__ = (shorter.get(id(one)) for one in (error.__cause__, error.__context__))
    alike.__suppress_context__ = error.__suppress_context__
    for note in texts[1:]:
        alike.add_note(without_middle(note))
    return alike.with_traceback(error.__traceback__)


def _alike(error: BaseException, message: str, parts: list[BaseException]) -> BaseException:
    cls = type(error)
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if parts:
        return type(cls.__name__, (BaseExceptionGroup,), names)(message, parts)  # type: ignore[no-any-return]
    return type(cls.__name__, (Exception,), names)(message)  # type: ignore[no-any-return]


def _message_of(error: BaseException) -> str:
    try:
        return error.message if isinstance(error, BaseExceptionGroup) else str(error)
    except BaseException:  # the log says that it cannot be printed
        return ""


def without_middle(text: str) -> str:
    """Return the text, without its middle if it is very long."""
    if len(text) <= MAX_MESSAGE:
        return text
    half = MAX_MESSAGE // 2
    return f"{text[:half]}\n… {len(text) - MAX_MESSAGE} characters left out …\n{text[-half:]}"


def _print() -> None:
    if logging.raiseExceptions:
        with suppress(Exception):  # there may be no stderr
            sys.stderr.write("--- Logging error ---\n")
            traceback.print_exc()

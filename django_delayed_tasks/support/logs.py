"""The log: its lines cannot be forged, and what it does not take ends nothing.

What a project's filter or handler raises is printed, as ``Handler.handleError`` does.
"""

import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from django_delayed_tasks.support.visible import unseen_in, visible, visible_lines

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


def _print() -> None:
    if logging.raiseExceptions:
        with suppress(Exception):  # there may be no stderr
            sys.stderr.write("--- Logging error ---\n")
            traceback.print_exc()

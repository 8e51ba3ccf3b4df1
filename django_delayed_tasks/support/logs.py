"""Logs for threads that must not end: what a project's filter raises is printed, as ``Handler.handleError`` does.

Exceptions with messages of megabytes are logged with shorter ones.
"""

import logging
import sys
import traceback
from contextlib import suppress
from typing import Any

LONGEST_MESSAGE = 20_000
"""Characters of the message of an exception in the log, as in the history."""
_DEEPEST = 10
"""Exceptions that were raised from each other, or are in groups, and are looked at."""


class Log(logging.LoggerAdapter[logging.Logger]):
    """The logger of this name, none of whose methods raises (but for KeyboardInterrupt, in the main thread)."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

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


def _brief_info(given: Any) -> Any:
    error = given if isinstance(given, BaseException) else (given if isinstance(given, tuple) else sys.exc_info())[1]
    return error and (type(shorter := brief(error)), shorter, error.__traceback__)


def brief(error: BaseException, depth: int = _DEEPEST) -> BaseException:
    """Return the exception or, if its message is as long as no log should be, another one that looks like it.

    So for what it was raised from, and for the exceptions of a group.
    """
    message, parts = _message_of(error), error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    others = {id(one): one for one in (error.__cause__, error.__context__, *parts) if one is not None}
    shorter = {key: brief(one, depth - 1) for key, one in others.items()} if depth else others
    texts = [message, *(note for note in getattr(error, "__notes__", ()) if isinstance(note, str))]
    if all(shorter[key] is others[key] for key in others) and max(map(len, texts)) <= LONGEST_MESSAGE:
        return error
    alike = _alike(error, _cut(message), [shorter[id(part)] for part in parts])
    alike.__cause__, alike.__context__ = (shorter.get(id(one)) for one in (error.__cause__, error.__context__))
    alike.__suppress_context__ = error.__suppress_context__
    for note in texts[1:]:
        alike.add_note(_cut(note))
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


def _cut(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    half = LONGEST_MESSAGE // 2
    return f"{text[:half]}\n… {len(text) - LONGEST_MESSAGE} characters left out …\n{text[-half:]}"


def _print() -> None:
    if logging.raiseExceptions:
        with suppress(Exception):  # there may be no stderr
            sys.stderr.write("--- Logging error ---\n")
            traceback.print_exc()

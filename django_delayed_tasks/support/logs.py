"""Logs for threads that must not end: what a project's filter raises is printed, as ``Handler.handleError`` does."""

import logging
import sys
import traceback
from contextlib import suppress
from typing import Any


class Log(logging.LoggerAdapter[logging.Logger]):
    """The logger of this name, none of whose methods raises (but for KeyboardInterrupt, in the main thread)."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

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


def _print() -> None:
    if logging.raiseExceptions:
        with suppress(Exception):  # there may be no stderr
            sys.stderr.write("--- Logging error ---\n")
            traceback.print_exc()

"""Whether a line of a log would get anywhere, for code that would do much only to write it."""

import logging
from types import FunctionType
from typing import Any, Final

from django.conf import settings
from django.utils.log import RequireDebugTrue

_FILE: Final = logging.Logger.handle.__code__.co_filename


def is_logged(logger: logging.Logger, level: int) -> bool:
    """Return False if it is certain that no handler would take a line of this level.

    In Django's default configuration this is so for INFO while ``DEBUG`` is off, although the level is enabled.
    """
    if not logger.isEnabledFor(level):
        return False
    if _has_hooks(logger):
        return True
    asked: logging.Logger | None = logger
    while asked is not None:
        for handler in asked.handlers:
            if handler.level <= level and (settings.DEBUG or not _is_for_debug(handler)):
                return True
        asked = asked.parent if asked.propagate else None
    return False


def _has_hooks(logger: logging.Logger) -> bool:
    """Return whether lines are seen before handlers are asked: by filters, or by a tool that replaces the method.

    Sentry replaces ``callHandlers``, which is not documented; the documented ``handle`` would not show that.
    """
    ask: Any = type(logger).callHandlers
    return bool(logger.filters) or type(ask) is not FunctionType or ask.__code__.co_filename != _FILE


def _is_for_debug(handler: logging.Handler) -> bool:
    return RequireDebugTrue in map(type, handler.filters)

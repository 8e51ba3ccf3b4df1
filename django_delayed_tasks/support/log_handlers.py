"""Whether a line of a log would get anywhere, for code that would do much only to write it."""

import logging
from types import FunctionType
from typing import Any, Final

from django.conf import settings
from django.utils.log import RequireDebugTrue

_FILE: Final = logging.Logger.handle.__code__.co_filename
_CALL: Any = logging.Logger.callHandlers
_OWN: Final = _CALL if type(_CALL) is FunctionType and _CALL.__code__.co_filename == _FILE else None
"""The method as the standard library defines it; None if a tool had replaced it before this module was imported."""


def is_logged(logger: logging.Logger, level: int) -> bool:
    """Return False if it is certain that no handler would take a line of this level.

    In Django's default configuration this is so for INFO while ``DEBUG`` is off, although the level is enabled.
    """
    if not logger.isEnabledFor(level):
        return False
    # Sentry replaces ``callHandlers``, which is not documented; the documented ``handle`` would not show that.
    if logger.filters or type(logger).callHandlers is not _OWN:
        return True
    asked: logging.Logger | None = logger
    while asked is not None:
        for handler in asked.handlers:
            if handler.level <= level and (settings.DEBUG or not _is_for_debug(handler)):
                return True
        asked = asked.parent if asked.propagate else None
    return False


def _is_for_debug(handler: logging.Handler) -> bool:
    return RequireDebugTrue in map(type, handler.filters)

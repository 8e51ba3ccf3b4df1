"""Whether a line of a log would get anywhere, for code that would do much only to write it."""

import logging
from collections.abc import Iterator
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
    return _has_hooks(logger) or any(_may_take(handler, level) for handler in _handlers_of(logger))


def _has_hooks(logger: logging.Logger) -> bool:
    """Return whether lines are seen before handlers are asked: by filters, or by a tool that replaces the method.

    Sentry replaces ``callHandlers``, which is not documented; the documented ``handle`` would not show that.
    """
    ask: Any = type(logger).callHandlers
    return bool(logger.filters) or type(ask) is not FunctionType or ask.__code__.co_filename != _FILE


def _handlers_of(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _may_take(handler: logging.Handler, level: int) -> bool:
    is_for_debug = any(type(one) is RequireDebugTrue for one in handler.filters)
    return handler.level <= level and (settings.DEBUG or not is_for_debug)

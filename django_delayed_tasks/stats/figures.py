"""Figures: what statistics return, with the method ``as_json``."""

from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, ClassVar


class Figures:
    """A dataclass whose ``as_json`` has its fields except ``left_out``, and the properties in ``also``."""

    __slots__ = ()
    left_out: ClassVar[tuple[str, ...]] = ()
    also: ClassVar[tuple[str, ...]] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON; durations are in seconds."""
        own: Any = self
        names = [one.name for one in fields(own) if one.name not in self.left_out]
        return {name: plain(getattr(self, name)) for name in (*names, *self.also)}


def plain(value: Any) -> Any:
    """Return a figure as JSON can have it."""
    if isinstance(value, Figures):
        return value.as_json()
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 6)
    return value.isoformat() if isinstance(value, datetime) else value

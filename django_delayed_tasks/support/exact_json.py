"""JSON text whose numbers every database returns unchanged.

PostgreSQL stores a number in a jsonb column as its decimal digits: ``1e+22`` comes back as an integer, and a few
characters become hundreds. Written in full, a float stays a float, and its text keeps its length.
"""

import json
import re
from decimal import Decimal
from typing import Any

_STRING_OR_FLOAT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?e[+-]\d+')


def in_full(text: str) -> str:
    """Return the JSON text, which Python has written, without exponents: ``1e-05`` becomes ``0.00001``."""
    if "e+" not in text and "e-" not in text:
        return text
    return _STRING_OR_FLOAT.sub(lambda found: _in_full(found[0]), text)


def _in_full(token: str) -> str:
    if token.startswith('"'):
        return token
    digits = format(Decimal(token), "f")
    return digits if "." in digits else f"{digits}.0"


class InFull(json.JSONEncoder):
    """Python's JSON encoder, without exponents."""

    def encode(self, o: Any) -> str:
        return in_full(super().encode(o))

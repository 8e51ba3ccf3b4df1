"""JSON text whose numbers every database gives back as they were.

PostgreSQL keeps a number of a jsonb column as its decimal digits: ``1e+22`` comes back as an integer, and a few
characters become hundreds. Written in full, a float stays one, and its text is as long before as afterwards.
"""

import json
import re
from decimal import Decimal
from typing import Any

_STRING_OR_FLOAT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?e[+-]\d+')


def in_full(text: str) -> str:
    """The JSON text, as Python writes it, without exponents: ``1e-05`` becomes ``0.00001``."""
    if "e+" not in text and "e-" not in text:
        return text
    return _STRING_OR_FLOAT.sub(lambda found: _in_full(found[0]), text)


def _in_full(token: str) -> str:
    if token.startswith('"'):
        return token
    digits = format(Decimal(token), "f")
    return digits if "." in digits else f"{digits}.0"


class InFull(json.JSONEncoder):
    """Python's own encoder, without exponents."""

    def encode(self, o: Any) -> str:
        return in_full(super().encode(o))

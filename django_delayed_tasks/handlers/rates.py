"""Parsing of ``rate = "100/m"``: how many runs of a code may start in a period."""

import re
from datetime import timedelta
from typing import Final, NamedTuple

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_STARTS: Final = 10_000
"""The most starts in one period: each start keeps a row for that long."""
MAX_PERIOD: Final = timedelta(days=31)
"""The longest period: a month."""
_FORM: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{0,9})\s*([smhd])\s*")


class Rate(NamedTuple):
    """The number of starts allowed in any period of the given length."""

    starts: int
    period: timedelta


def parse_rate(text: str) -> Rate:
    """Parse a rate: ``"100/m"`` is a hundred in any minute, ``"5/10s"`` five in any ten seconds.

    The units are s, m, h and d.

    Raises:
        ValueError: the text is not a valid rate; the message says what was expected.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError('expected a string such as "100/m" or "5/10s", with s, m, h or d')
    starts, period = int(found[1]), timedelta(seconds=int(found[2] or 1) * UNITS[found[3]])
    if not 1 <= starts <= MAX_STARTS:
        raise ValueError(f"expected 1 to {MAX_STARTS} starts in a period; choose a shorter period for a higher rate")
    if not timedelta() < period <= MAX_PERIOD:
        raise ValueError(f"expected a period above 0 and of at most {MAX_PERIOD.days} days")
    return Rate(starts, period)

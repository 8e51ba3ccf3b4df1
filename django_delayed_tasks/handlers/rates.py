"""``rate = "100/m"``: how many runs of a code may start in a while."""

import re
from datetime import timedelta
from typing import Final, NamedTuple

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MOST_STARTS: Final = 10_000
"""In one period: each start has a row of its own for as long."""
LONGEST_PERIOD: Final = timedelta(days=31)
_FORM: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{0,9})\s*([smhd])\s*")


class Rate(NamedTuple):
    """So many starts in any period of this length."""

    starts: int
    period: timedelta


def parse_rate(text: str) -> Rate:
    """``"100/m"`` is a hundred in any minute, ``"5/10s"`` five in any ten seconds; s, m, h or d.

    Raises:
        ValueError: the text says nothing of the kind; the message says what was expected.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError('expected a text such as "100/m" or "5/10s", with s, m, h or d')
    starts, period = int(found[1]), timedelta(seconds=int(found[2] or 1) * UNITS[found[3]])
    if not 1 <= starts <= MOST_STARTS:
        raise ValueError(f"expected 1 to {MOST_STARTS} starts in a period; a shorter period can have as many")
    if not timedelta() < period <= LONGEST_PERIOD:
        raise ValueError(f"expected a period above 0, of {LONGEST_PERIOD.days} days at most")
    return Rate(starts, period)

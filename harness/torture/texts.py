"""Texts beyond ASCII for identities, data, results and errors; in the ledger they are ASCII.

What mangles texts on their way to the server cannot mangle the ledger in the same way, and two texts that a collation
calls equal are two in the ledger.
"""

from typing import Any

from django.db import models

TEXTS = (
    "\N{GRINNING FACE}",
    "\N{ROCKET}",
    "支付失败",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "E\N{COMBINING ACUTE ACCENT}",
    "ไทย",
    "שלום",
    "ß",
    "SS",
    "\N{MATHEMATICAL SCRIPT CAPITAL X}",
    "\N{WAVING WHITE FLAG}\N{VARIATION SELECTOR-16}",
    'naïve\'s "quotes" \\ 100%',
)
"""Pairs of them differ in one character that latin1, utf8mb3 or a case-insensitive collation does not tell apart."""
AS_TOLD = "as it was told:"
"""What a handler's error begins with; the text of its claim follows."""


def text_of(number: int) -> str:
    """The text that belongs to this number: the same in the driver, the executors and the invariants."""
    return TEXTS[number % len(TEXTS)]


def text_of_claim(task_id: int, version: int) -> str:
    """The text of what this claim came to, its result or its error."""
    return text_of(task_id + version)


def escaped(text: str) -> str:
    """The text in ASCII."""
    return text.encode("unicode_escape").decode("ascii")


def unescaped(text: str) -> str:
    """The text that :func:`escaped` made this of."""
    return text.encode("ascii").decode("unicode_escape")


class EscapedField(models.CharField):  # type: ignore[type-arg]
    """A text of at most ``max_length`` characters in ASCII; SQL that reads the column must call :func:`unescaped`."""

    def get_prep_value(self, value: Any) -> Any:
        return escaped(str(value))

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return unescaped(value)

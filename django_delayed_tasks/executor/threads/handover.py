"""The handover of the interpreter to a thread that was just woken.

Without it CPython continues with the thread that has woken it, until that one waits, or for 5 ms.
"""

import time
from typing import Final

SHORT: Final = 0.00001
"""Seconds of the sleep: any is long enough, since a sleep takes as long as it takes to wake a thread."""


def hand_over() -> None:
    """Let a thread begin that this one has just woken, and that is waited for."""
    time.sleep(SHORT)

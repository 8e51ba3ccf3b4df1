"""Read by Python at the start of a process under libfaketime.

Only its wall clock is false: the kernel's waits go by the monotonic one. libfaketime then refuses ``clock_nanosleep``,
with which Python sleeps; waiting for a lock does not use it.
"""

import threading
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex, /) -> None:
    seconds = float(seconds)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    threading.Event().wait(seconds)


time.sleep = _sleep

"""Enqueue in huey one by one at full speed: ``send_huey SECONDS`` prints how many."""

import sys
from time import monotonic

from harness.benchmarks.peers.programs.huey_app import sustained


def send(seconds: float) -> int:
    """Enqueue for ``seconds``; return how many."""
    tasks, end = 0, monotonic() + seconds
    while (now := monotonic()) < end:
        sustained(now)
        tasks += 1
    return tasks


if __name__ == "__main__":
    print(send(float(sys.argv[1])))

"""Run as a script by ``runmutex``, beside the command: ends the command when ``runmutex`` cannot do it.

That is killed, or stands still, as a machine without memory makes it do. A line of its input says which process group
to end, and until which monotonic moment it may run; another one puts that off; "end" says that all is well.
"""

import contextlib
import os
import select
import signal
import time


def main() -> None:
    """Until told that all is well."""
    group, until, unread = 0, float("inf"), b""
    while True:
        wait = None if until == float("inf") else max(until - time.monotonic(), 0.0)
        is_told = bool(select.select([0], [], [], wait)[0])
        told = os.read(0, 4096) if is_told else b""
        if not told:
            return end(group)
        *lines, unread = (unread + told).split(b"\n")
        for line in lines:
            if line == b"end":
                return None
            first, second = line.split()
            group, until = int(first), float(second)


def end(group: int) -> None:
    """All processes of this group, at once."""
    with contextlib.suppress(OSError):
        if group:
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()

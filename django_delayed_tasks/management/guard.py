"""A script that ``runmutex`` runs in parallel with the command: it ends the command if ``runmutex`` cannot do so.

``runmutex`` may be killed, or hang, as on a machine that is out of memory. A line of the script's input says which
process group to end, and until which monotonic moment it may run; a later line extends that time; "end" says that the
command has ended.
"""

import contextlib
import os
import select
import signal
import time


def main() -> None:
    """Read the input until it says that the command has ended; end the group if the time is over or the input ends."""
    group, until, unread = 0, float("inf"), b""
    while True:
        wait = None if until == float("inf") else max(until - time.monotonic(), 0.0)
        has_input = bool(select.select([0], [], [], wait)[0])
        received = os.read(0, 4096) if has_input else b""
        if not received:
            return end(group)
        *lines, unread = (unread + received).split(b"\n")
        for line in lines:
            if line == b"end":
                return None
            first, second = line.split()
            group, until = int(first), float(second)


def end(group: int) -> None:
    """Kill all processes of this group at once."""
    with contextlib.suppress(OSError):
        if group:
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()

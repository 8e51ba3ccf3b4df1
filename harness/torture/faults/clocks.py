"""Executors on a host whose clock is wrong: Debian's faketime."""

import glob
import os
from collections.abc import Mapping
from pathlib import Path

from harness.servers.packages import install
from harness.servers.processes import ServerError

LIBRARIES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
SITE = Path(__file__).resolve().parent.parent / "false_clock"


def library() -> str:
    """The path of libfaketime, installed if need be.

    Raises:
        ServerError: it cannot be had here; the message says what to do.
    """
    if found := _find():
        return found
    install(["faketime"], "Clocks that are wrong (faketime)")
    if found := _find():
        return found
    raise ServerError("faketime was installed, but its library was not found.")


def _find() -> str | None:
    return next((path for pattern in LIBRARIES for path in sorted(glob.glob(pattern))), None)


def wrong_by(minutes: int) -> Mapping[str, str]:
    """Return the environment of a process whose clock is ``minutes`` ahead, or behind if negative."""
    path = os.pathsep.join(part for part in (str(SITE), os.environ.get("PYTHONPATH", "")) if part)
    return {
        "LD_PRELOAD": library(),
        "FAKETIME": f"{minutes:+d}m",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": path,
    }

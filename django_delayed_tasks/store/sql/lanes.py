"""Lanes: the column that keeps tasks that wait for one thing out of the way of all others, in every index range.

A plain task has no lane (""): it waits for a thread. One of an async handler waits in the lane ``LOOP`` for the event
loop. One of a limited handler waits in the *open lane* of its code. If its concurrency key has no free permit, it is
*blocked*: it waits in a lane of the key. Lanes are compared as bytes, and the blocked ones come last: whatever reads
less than ``BLOCKED`` reads none of them.
"""

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from django_delayed_tasks.handlers import TaskHandler

OPEN: Final = "="
LOOP: Final = "@"
UNLIMITED: Final = ("", LOOP)
"""The lanes in which tasks wait for an executor alone."""
BLOCKED: Final = "~"
_DIGEST: Final = 32
"""Characters of the hash of a key in a lane: 128 bits."""

OPENED: Final = f"CASE WHEN SUBSTR(lane, 1, 1) = '{BLOCKED}' THEN SUBSTR(lane, {_DIGEST + 2}) ELSE lane END"
"""The expression for the lane of a row that is no longer blocked."""


def lane_of(code: str, handler: "TaskHandler | None") -> str:
    """Return the lane in which tasks of this code wait, by its handler in this process: "" if there is none."""
    if handler is None:
        return ""
    return open_lane(code) if handler.is_limited else LOOP if handler.is_async else ""


def open_lane(code: str) -> str:
    """Return the lane in which tasks of a limited code wait."""
    return OPEN + code


def blocked_lane(code: str, key: str) -> str:
    """Return the lane in which tasks of this code and key wait for a permit of the key."""
    digest = hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{BLOCKED}{digest}{OPEN}{code}"


def code_of(lane: str) -> str:
    """Return the code that a lane is for."""
    return lane.partition(OPEN)[2]


def is_limited(lane: str) -> bool:
    """Return whether tasks in this lane wait for permits of their handler's limits."""
    return lane not in UNLIMITED


def is_blocked(lane: str) -> bool:
    """Return whether tasks in this lane are blocked."""
    return lane.startswith(BLOCKED)

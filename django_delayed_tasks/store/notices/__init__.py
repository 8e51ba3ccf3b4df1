"""Notices sent after a commit: to executors in this process and, through the database, to those in other processes.

A notice is a hint that there is something to claim. Nothing depends on it.
"""

import os
import secrets
from typing import Final, NamedTuple

_TOKEN: Final = secrets.token_hex(4)


def process() -> str:
    """Return a text that no other process sends; a forked child has the token of its parent and another pid."""
    return f"{_TOKEN}-{os.getpid()}"


class Notice(NamedTuple):
    """The news that something to claim was added to this queue ("": to any queue)."""

    queue: str
    is_own: bool
    """Whether this process sent it."""

    @classmethod
    def parsed(cls, sent: bytes) -> "Notice":
        """Return the notice that was sent as ``process() + " " + queue``."""
        sender, _, queue = sent.decode(errors="replace").partition(" ")
        return cls(queue, sender == process())


class CannotListen(Exception):
    """Notices cannot arrive here; the message says why, and what to do."""

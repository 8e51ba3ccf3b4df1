"""What a thread executes at the moment, to be shown in a warning about it."""

import sys
import traceback
from threading import Thread

FRAMES = 6
"""The innermost frames that are shown."""


def stack_of(thread: Thread | None) -> str:
    """Return the innermost frames of what a thread executes at the moment; an empty string if it does not run."""
    frame = sys._current_frames().get(thread.ident or 0) if thread else None
    return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else ""

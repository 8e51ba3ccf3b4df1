"""Temporary folders that are removed later when their owner was killed before it could."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

MARK = "held"  # a file in the folder, locked by the owner for as long as it lives
SETTLING_TIME = 60.0  # seconds in which a folder may exist without its lock


class HeldFolder:
    """A new folder ``<parent>/<prefix>…``, held until `remove`."""

    def __init__(self, prefix: str, parent: Path) -> None:
        sweep(prefix, parent)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._mark = os.open(self.path / MARK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._mark, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._mark)


def sweep(prefix: str, parent: Path) -> None:
    """Remove the folders whose owner has ended without removing them."""
    for folder in parent.glob(f"{prefix}*"):
        # Another process may sweep, or remove its folder, at the same time.
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > SETTLING_TIME and not is_held(folder):
                shutil.rmtree(folder, ignore_errors=True)


def is_held(folder: Path) -> bool:
    """Whether the owner lives; OSError for a folder that is not one of ours."""
    mark = os.open(folder / MARK, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(mark)
    return False

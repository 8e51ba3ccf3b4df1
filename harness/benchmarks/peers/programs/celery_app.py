"""Celery on PEER_URL, its tasks noting how late they begin."""

import os
import time
from pathlib import Path

from celery import Celery  # type: ignore[import-not-found, unused-ignore]

from harness.benchmarks.peers import recorder

SUFFIX = ".lateness"
app = Celery("bench", broker=os.environ["PEER_URL"])
app.conf.task_ignore_result = True


def _late(due: float) -> None:
    """``due``: seconds since the epoch. Appends by how much it is later now, in seconds."""
    seconds = time.time() - due
    with (Path(os.environ[recorder.FOLDER]) / f"{os.getpid()}{SUFFIX}").open("a") as file:
        file.write(f"{seconds!r}\n")


late = app.task(name="late")(_late)

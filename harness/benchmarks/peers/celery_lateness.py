"""How late Celery begins its tasks: its worker holds those with an ETA in memory and has a timer for each."""

import tempfile
from pathlib import Path

from harness.benchmarks.peers import recorder
from harness.benchmarks.peers.stores import Stores
from harness.benchmarks.peers.workers import run, started, wait_until

NAME = "celery"
PROGRAMS = "harness.benchmarks.peers.programs"
WORKER = ("python", "-m", "celery", "--app", f"{PROGRAMS}.celery_app", "worker", "--pool", "prefork")
OPTIONS = ("--concurrency", "2", "--loglevel", "WARNING")
AHEAD = 5.0
"""Seconds from the sending to the first due time."""


def lateness(tasks: int, spread: float) -> list[float]:
    """Seconds late (below zero: early), by the wall clock, of tasks due over ``spread`` seconds; worker otherwise idle.

    All are sent, over Redis, before the first is due. NotMeasured when Celery or Redis cannot be had.
    """
    with (
        Stores() as stores,
        stores.empty("redis", NAME) as url,
        tempfile.TemporaryDirectory(prefix="ddt-peer-") as name,
    ):
        folder = Path(name)
        environment = {"PEER_URL": url, recorder.FOLDER: name}
        with started((*WORKER, *OPTIONS), environment, folder) as worker:
            send = ("python", "-m", f"{PROGRAMS}.send_celery", str(tasks), str(spread), str(AHEAD))
            run(send, environment, folder)
            wait_until(lambda: len(noted(folder)), tasks, [worker], folder)
        return noted(folder)


def noted(folder: Path) -> list[float]:
    """Return what the tasks have noted so far; the last line may be half written."""
    texts = [path.read_text() for path in folder.glob("*.lateness")]
    return [float(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]

"""Processes full of threads that all want a resource: ``python -m tests.leases.contenders FOLDER PROCESSES THREADS``.

They are forked from one that has set Django up, which replaces those that die. Each holder keeps a file of the
resource's name locked: the kernel knows at every moment whether there are two.
"""

import contextlib
import fcntl
import os
import random
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import django

POOL, TTL = "proxies", 6.0
HOLD = (1.0, 13.0)
"""Seconds, by chance; long, so that it does not matter how fast the machine is."""


class Notes:
    """Lines in one file, each written whole however many processes write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, event: str, *values: object) -> None:
        line = " ".join(map(str, (event, os.getpid(), time.monotonic(), *values))) + "\n"
        os.write(self._file, line.encode())


class Contender(threading.Thread):
    """Holds a resource again and again until there is a file "stop"."""

    hold = HOLD

    def __init__(self, folder: Path, notes: Notes) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._notes = notes

    def run(self) -> None:
        from django.db import connections

        try:
            while not self._has_ended():
                with self.lease() as resource:
                    self._hold(resource)
        except Exception as error:
            self._notes.write("error", type(error).__name__, str(error).replace("\n", " "))
        finally:
            connections.close_all()

    def lease(self) -> AbstractContextManager[Any]:
        """Return the lease to hold next."""
        from django_delayed_tasks.leases import Pool

        return Pool(POOL).lease(ttl=TTL, wait=120)

    def _hold(self, resource: Any) -> None:
        name, token = resource.name, resource.token
        with (self._folder / f"resource-{name}").open("a") as file:
            self._notes.write("got", name, token)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._notes.write("overlap", name, token)
            end = time.monotonic() + random.uniform(*self.hold)
            while time.monotonic() < end and resource.is_held and not self._has_ended():
                time.sleep(0.1)
            if not resource.is_held:
                self._notes.write("lost", name, token)
            self._notes.write("gave", name, token)

    def _has_ended(self) -> bool:
        return (self._folder / "stop").exists()


def contend(folder: Path, notes: Notes, threads: int) -> None:
    contenders = [Contender(folder, notes) for _ in range(threads)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join()


def start_process(folder: Path, notes: Notes, threads: int) -> int:
    if pid := os.fork():
        return pid
    try:
        notes.write("begun")
        contend(folder, notes, threads)
    finally:
        os._exit(0)


def main(folder: Path, processes: int, threads: int) -> None:
    notes = Notes(folder / "notes")
    pids = {start_process(folder, notes, threads) for _ in range(processes)}
    while pids:
        pid, _ = os.wait()
        pids.discard(pid)
        notes.write("died", pid)
        if not (folder / "stop").exists():
            pids.add(start_process(folder, notes, threads))


if __name__ == "__main__":
    django.setup()
    with contextlib.suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

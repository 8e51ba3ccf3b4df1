"""Processes that write to one SQLite file without a pause, and one that adds a row every 20 ms; who waits how long.

    python writers.py today 8 20
    python writers.py plain 8 20

WAY is how the writers wait for each other: "today" (SQLite's busy handler), "plain" (a lock on a file around each
transaction), "turnstile" (two such locks, so that the one who waits longest is next) or "constant" (a new try every 1
to 2 ms). The one that adds rows is like a web process: it never takes a lock of ours.
"""

import fcntl
import math
import multiprocessing
import os
import random
import sqlite3
import sys
import tempfile
import time
from typing import Any

ROWS = 100
AFTERWARDS = 20_000  # steps of a loop, about a millisecond, that an executor would need for the runs
EVERY = 0.02
QUEUE, TURN = 0, 1  # bytes of the file that are locked


class Connection:
    """A connection, and the file with the locks."""

    def __init__(self, path: str, way: str) -> None:
        self.way = way
        self.sql = sqlite3.connect(path, isolation_level=None, timeout=0 if way == "constant" else 20)
        self.sql.execute("PRAGMA synchronous=FULL")
        self.file = os.open(f"{path}-turns", os.O_RDWR | os.O_CREAT)

    def begin(self) -> None:
        if self.way == "turnstile":
            fcntl.lockf(self.file, fcntl.LOCK_EX, 1, QUEUE)
        if self.way in ("plain", "turnstile"):
            fcntl.lockf(self.file, fcntl.LOCK_EX, 1, TURN)
        if self.way == "turnstile":
            fcntl.lockf(self.file, fcntl.LOCK_UN, 1, QUEUE)
        while True:
            try:
                self.sql.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                if self.way != "constant":
                    raise
                time.sleep(random.uniform(0.001, 0.002))

    def commit(self) -> None:
        self.sql.execute("COMMIT")
        if self.way in ("plain", "turnstile"):
            fcntl.lockf(self.file, fcntl.LOCK_UN, 1, TURN)


def write(path: str, way: str, ready: Any, seconds: float, answers: Any) -> None:
    """Transactions one after the other, as of an executor that drains."""
    connection, waits = Connection(path, way), []
    ready.wait()
    end = time.monotonic() + seconds
    while (asked := time.monotonic()) < end:
        connection.begin()
        waits.append(time.monotonic() - asked)
        connection.sql.executemany("INSERT INTO t(a, b) VALUES (?, ?)", [(1, "x" * 50)] * ROWS)
        connection.commit()
        for _ in range(AFTERWARDS):
            pass
    answers.put(("writer", waits))


def add(path: str, ready: Any, seconds: float, answers: Any) -> None:
    """One row now and then."""
    connection, waits = Connection(path, "today"), []
    ready.wait()
    end = time.monotonic() + seconds
    while (asked := time.monotonic()) < end:
        connection.sql.execute("INSERT INTO t(a, b) VALUES (0, 'y')")
        waits.append(time.monotonic() - asked)
        time.sleep(EVERY)
    answers.put(("adder", waits))


def described(waits: list[float]) -> str:
    """The median, the 99th percentile and the longest of these waits."""
    waits = sorted(waits) or [math.nan]
    chosen = (waits[len(waits) // 2], waits[int(len(waits) * 0.99)], waits[-1])
    return "p50 {:.1f}, p99 {:.0f}, longest {:.0f} ms".format(*(1000 * wait for wait in chosen))


def main(way: str, writers: int, seconds: float) -> None:
    """Measure, and print a line."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "db.sqlite3")
        sql = sqlite3.connect(path)
        sql.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE INDEX i ON t(b)"
        )
        sql.close()
        answers: Any = multiprocessing.Queue()
        span = (multiprocessing.Barrier(writers + 1), seconds, answers)
        processes = [multiprocessing.Process(target=write, args=(path, way, *span)) for _ in range(writers)]
        processes.append(multiprocessing.Process(target=add, args=(path, *span)))
        for process in processes:
            process.start()
        found = [answers.get() for _ in processes]
        for process in processes:
            process.join()
    of_writers = [waits for who, waits in found if who == "writer"]
    [of_adder] = [waits for who, waits in found if who == "adder"]
    counts = [len(waits) for waits in of_writers]
    shares = f"shares {min(counts) * writers / sum(counts):.2f} to {max(counts) * writers / sum(counts):.2f}"
    waits = [wait for some in of_writers for wait in some]
    print(f"{way:9} {sum(counts) / seconds:5.0f} transactions/s, {shares}, {described(waits)};", end=" ")
    print(f"the adder: {len(of_adder)} rows, {described(of_adder)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))

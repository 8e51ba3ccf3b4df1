"""Claim, run, settle with threads and nothing else; the stores differ in two callables."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

THREADS = 4
MAX_SETTLEMENT = 500

Row = Sequence[Any]


def drain(claim: Callable[[int], Sequence[Row]], settle: Callable[[list[Row]], int], batch: int) -> int:
    """Drain until ``claim(batch)`` finds nothing; return how many tasks were settled.

    A claimed row begins with id and version; ``settle`` gets (id, version, started, finished) and says how many it
    settled.
    """
    todo: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
    slots = threading.Semaphore(4 * batch)
    settled: list[int] = []

    def work() -> None:
        while (row := todo.get()) is not None:
            started = time.time()
            done.put((row[0], row[1], started, time.time()))

    def settle_all() -> None:
        while finished := _batch(done):
            settled.append(settle(finished))
            slots.release(len(finished))

    workers = [threading.Thread(target=work) for _ in range(THREADS)]
    settler = threading.Thread(target=settle_all)
    for thread in [*workers, settler]:
        thread.start()
    while rows := claim(batch):
        for row in rows:
            slots.acquire()
            todo.put(row)
    for _ in workers:
        todo.put(None)
    for thread in workers:
        thread.join()
    done.put(None)
    settler.join()
    return sum(settled)


def _batch(done: "queue.SimpleQueue[Row | None]") -> list[Row]:
    """Return what has finished, after waiting for the first; nothing at the end."""
    batch: list[Row] = []
    while len(batch) < MAX_SETTLEMENT and not (batch and done.empty()):
        row = done.get()
        if row is None:
            if batch:
                done.put(None)
            break
        batch.append(row)
    return batch

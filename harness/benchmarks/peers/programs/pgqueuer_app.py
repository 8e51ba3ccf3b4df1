"""PgQueuer on PEER_URL with its defaults: ``pgqueuer_app fill TASKS``, ``work``, or ``send SECONDS``."""

import os
import sys
from time import monotonic
from typing import Any

import asyncpg  # type: ignore[import-not-found, unused-ignore]
import uvloop  # type: ignore[import-not-found, unused-ignore]
from pgqueuer import PgQueuer  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.queries import Queries  # type: ignore[import-not-found, unused-ignore]

from harness.benchmarks.peers import recorder

BATCH = 5000


async def fill(tasks: int) -> None:
    """Create its tables, add ``tasks`` due tasks, refresh the statistics."""
    connection = await asyncpg.connect(os.environ["PEER_URL"])
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for done in range(0, tasks, BATCH):
        some = min(BATCH, tasks - done)
        await queries.enqueue(["nothing"] * some, [None] * some, [0] * some)
    await connection.execute("ANALYZE")
    await connection.close()


async def send(seconds: float) -> None:
    """Add one by one for ``seconds``; print how many."""
    connection = await asyncpg.connect(os.environ["PEER_URL"])
    queries, tasks, end = Queries(AsyncpgDriver(connection)), 0, monotonic() + seconds
    while (now := monotonic()) < end:
        await queries.enqueue("sustained", str(now).encode())
        tasks += 1
    await connection.close()
    print(tasks)


async def work() -> None:
    """Work until the process is ended."""
    connection = await asyncpg.connect(os.environ["PEER_URL"])
    queuer = PgQueuer(AsyncpgDriver(connection))

    async def nothing(job: Any) -> None:
        recorder.executed()

    async def sustained(job: Any) -> None:
        recorder.started(float(job.payload))

    queuer.entrypoint("nothing")(nothing)
    queuer.entrypoint("sustained")(sustained)
    await queuer.run()


if __name__ == "__main__":
    word, number = [*sys.argv[1:], "0"][:2]
    uvloop.run({"fill": lambda: fill(int(number)), "send": lambda: send(float(number)), "work": work}[word]())

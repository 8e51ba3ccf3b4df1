"""PgQueuer on PEER_URL with its defaults: ``pgqueuer_app fill TASKS`` or ``pgqueuer_app work``."""

import os
import sys
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


async def work() -> None:
    """Work until the process is ended."""
    connection = await asyncpg.connect(os.environ["PEER_URL"])
    queuer = PgQueuer(AsyncpgDriver(connection))

    async def nothing(job: Any) -> None:
        recorder.executed()

    queuer.entrypoint("nothing")(nothing)
    await queuer.run()


if __name__ == "__main__":
    word, *numbers = sys.argv[1:]
    uvloop.run(fill(int(numbers[0])) if word == "fill" else work())

"""Huey on PEER_URL: Redis or SQLite."""

import os
from typing import Any

from huey import RedisHuey, SqliteHuey  # type: ignore[import-not-found, unused-ignore]

from harness.benchmarks.peers import recorder
from harness.database_urls import parse


def connected(url: str) -> Any:
    """On SQLite it uses WAL, and SQLite's default synchronous, FULL."""
    return RedisHuey("bench", url=url) if url.startswith("redis") else SqliteHuey("bench", filename=parse(url)["NAME"])


huey = connected(os.environ["PEER_URL"])


def _nothing() -> None:
    recorder.executed()


nothing = huey.task(name="nothing")(_nothing)


def _sustained(sent: float) -> None:
    recorder.started(sent)


sustained = huey.task(name="sustained")(_sustained)

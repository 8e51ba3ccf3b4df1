"""A peer under a load that lasts: four processes enqueue one by one at full speed, two workers run what comes.

Nothing is cancelled or rescheduled, and no row of the caller is written: not all peers can do that.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from harness.benchmarks.peers import catalogue, recorder
from harness.benchmarks.peers.catalogue import PROGRAMS, Peer
from harness.benchmarks.peers.environments import NotMeasured
from harness.benchmarks.peers.stores import Stores
from harness.benchmarks.peers.workers import PATIENCE, run, said, started

SENDERS = {
    catalogue.PGQUEUER.name: ("python", "-m", f"{PROGRAMS}.pgqueuer_app", "send"),
    catalogue.DJ_QUEUE.name: ("python", "-m", f"{PROGRAMS}.send_django"),
    catalogue.HUEY_REDIS.name: ("python", "-m", f"{PROGRAMS}.send_huey"),
}
MOST = 20_000
"""Tasks a second for which a worker has room."""


class Load(NamedTuple):
    """How many processes enqueue and work, and for how many seconds."""

    senders: int
    workers: int
    seconds: float


class Sustained(NamedTuple):
    """Calls of the senders, and for each task that started, in order: seconds since the first one, and how late."""

    sent: int
    starts: list[tuple[float, float]]


def sustained(stores: Stores, database: str, peer: Peer, load: Load) -> Sustained:
    """Load a peer, tuned if it can be. What was not started when the senders end is not waited for."""
    way = peer.ways[-1]
    with stores.empty(database, peer.name) as url, tempfile.TemporaryDirectory(prefix="ddt-peer-") as name:
        folder, capacity = Path(name), str(int(MOST * load.seconds))
        environment = {**peer.environment, **way.environment, "PEER_URL": url}
        noting = {recorder.FOLDER: name, recorder.CAPACITY: capacity}
        run([*peer.fill, "0"], environment, folder)
        with ExitStack() as stack:
            for _ in range(load.workers):
                stack.enter_context(started(way.worker, {**environment, **noting}, folder))
            sent = sum(_sent(peer, environment, folder, load))
        starts = sorted(recorder.starts(folder))
        if not starts:
            raise NotMeasured(f"nothing started: {said(folder)}")
        return Sustained(sent, [(now - starts[0][0], late) for now, late in starts])


def _sent(peer: Peer, environment: dict[str, str], folder: Path, load: Load) -> Iterator[int]:
    """How many tasks each sender has sent."""
    with ExitStack() as stack:
        senders = []
        for number in range(load.senders):
            own = folder / str(number)
            own.mkdir()
            command = [*SENDERS[peer.name], str(load.seconds)]
            senders.append((own, stack.enter_context(started(command, environment, own))))
        for own, sender in senders:
            if sender.wait(load.seconds + PATIENCE):
                raise NotMeasured(f"a sender ended with {sender.returncode}: {said(own)}")
            yield int((own / "log").read_text().splitlines()[-1])

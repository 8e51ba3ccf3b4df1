"""The drain of due no-op tasks by other queues: tasks per second from the first execution to the last.

The product's rates are those of the drain case (``make bench BENCH="drain peers"`` measures both), which also count
what comes before the first execution and after the last.
"""

from collections.abc import Iterator

from harness.benchmarks.bench import Bench
from harness.benchmarks.cases.drain import RATE, rate_of
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.peers import catalogue
from harness.benchmarks.peers.catalogue import PEERS, WORKERS, Peer, Way
from harness.benchmarks.peers.stores import Stores
from harness.benchmarks.peers.workers import answer_of, drain_rate

ENQUEUE, ENQUEUED = "enqueue, a commit each", 2_000
TOGETHER_WITH = {"redis": "mariadb"}
"""A store that is none of the suite's databases is measured with one that is."""


def measure(bench: Bench) -> None:
    """Measure each peer in each way, in turn; note what cannot be measured, and then leave it out."""
    with Stores() as stores:
        for _ in bench.turns("all"):
            for database, peer in measured_on(bench.databases):
                if bench.has_missed(database, peer.name):
                    continue
                try:
                    measure_peer(bench, stores, database, peer)
                except Exception as why:  # of a driver, a server or a program: the other peers are measured
                    bench.miss(database, peer.name, why)


def measured_on(databases: tuple[str, ...]) -> Iterator[tuple[str, Peer]]:
    """The peers, and where."""
    for peer in PEERS:
        for database in peer.databases:
            if TOGETHER_WITH.get(database, database) in databases:
                yield database, peer


def measure_peer(bench: Bench, stores: Stores, database: str, peer: Peer) -> None:
    """Measure all ways with each number of workers; raise NotMeasured if one of them does not work."""
    for way in peer.ways:
        for workers in WORKERS:
            with stores.empty(database, peer.name) as url:
                environment = {**peer.environment, **way.environment, "PEER_URL": url}
                rate = drain_rate(peer.fill, way.worker, environment, bench.size(way.tasks), workers)
            bench.note(database, peer.name, way.variant(workers), RATE, rate)
    if peer in DJANGO_PEERS:
        measure_enqueue(bench, stores, database, peer)


def measure_enqueue(bench: Bench, stores: Stores, database: str, peer: Peer) -> None:
    """Measure how fast the backend of django.tasks enqueues one by one."""
    tasks = bench.size(ENQUEUED)
    with stores.empty(database, peer.name) as url:
        seconds = answer_of((*catalogue.ENQUEUE, str(tasks)), {**peer.environment, "PEER_URL": url})
    bench.note(database, peer.name, ENQUEUE, RATE, tasks / seconds)


def figures(database: str, *peers: Peer) -> tuple[Figure, ...]:
    """Return every figure of these peers on this database; a goal is compared with the greatest."""
    return tuple(figure(database, peer, way, workers) for peer in peers for way in peer.ways for workers in WORKERS)


def figure(database: str, peer: Peer, way: Way, workers: int) -> Figure:
    return Figure("peers", database, peer.name, way.variant(workers), RATE)


DJANGO_PEERS = (catalogue.DJANGO_TASKS_DB, catalogue.DJANGO_OX, catalogue.DJ_QUEUE)
MARIADB = rate_of("mariadb", PRODUCT, "plain", 2)
POSTGRES = rate_of("postgres", PRODUCT, "plain", 2)
POSTGRES_BATCH = rate_of("postgres", PRODUCT, "handle_batch", 2)
SQLITE = rate_of("sqlite", PRODUCT, "plain", 1)
GOALS = [
    Goal("drain, two processes", MARIADB, 12, figures("mariadb", *DJANGO_PEERS)),
    Goal("drain, two processes, huey on Redis", MARIADB, 2, figures("redis", catalogue.HUEY_REDIS)),
    Goal("drain, two processes", POSTGRES, 20, figures("postgres", *DJANGO_PEERS)),
    Goal("drain, two processes", POSTGRES, 2.5, figures("postgres", catalogue.PGQUEUER)),
    Goal("drain, handle_batch", POSTGRES_BATCH, 1, figures("postgres", catalogue.GRAPHILE_WORKER)),
    Goal("drain, one process", SQLITE, 20, figures("sqlite", catalogue.DJANGO_TASKS_DB)),
    Goal("drain, one process", SQLITE, 3, figures("sqlite", catalogue.HUEY_SQLITE)),
]

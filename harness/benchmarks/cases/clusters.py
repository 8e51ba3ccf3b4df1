"""Three nodes beside one server: what a call takes and sends, through changing nodes, and what an executor drains."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from harness.benchmarks.bench import Bench
from harness.benchmarks.cases.drain import RATE, together
from harness.benchmarks.figures import PRODUCT
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.together import seconds_of
from harness.servers import galera, groupreplication, patroni

ROUNDS, TASKS = 1_000, 10_000
Urls = tuple[str, str]
"""Of the node through which tasks are added, and are run; and of that through which they are cancelled."""


@contextmanager
def one_server(database: str) -> Iterator[Urls]:
    url = os.environ[f"DATABASE_URL_{database.upper()}"]
    yield url, url


@contextmanager
def nodes_of(make: Callable[[], Any]) -> Iterator[Urls]:
    """Start a cluster, each of whose nodes takes writes."""
    with make() as cluster:
        yield cluster.nodes[0].url, cluster.nodes[1].url


@contextmanager
def leader_of(make: Callable[[], Any], url_of: Callable[[Any], str]) -> Iterator[Urls]:
    """Start a cluster, of which one node takes all writes."""
    with make() as cluster:
        yield url_of(cluster), url_of(cluster)


WAYS: dict[str, dict[str, Callable[[], AbstractContextManager[Urls]]]] = {
    "sqlite": {},
    "mariadb": {
        "one server": partial(one_server, "mariadb"),
        "Galera": partial(nodes_of, galera.Cluster),
    },
    "mysql": {
        "one server": partial(one_server, "mysql"),
        "Group Replication, one primary node": partial(
            leader_of, partial(groupreplication.Cluster, True), lambda cluster: cluster.primary().url
        ),
        "Group Replication, three primary nodes": partial(nodes_of, groupreplication.Cluster),
    },
    "postgres": {
        "one server": partial(one_server, "postgres"),
        "Patroni, strict": partial(leader_of, patroni.Cluster, lambda cluster: cluster.url),
    },
}


def measure(bench: Bench) -> None:
    """Measure each in turn, once: a cluster takes long to start, and the calls are many."""
    for database in bench.databases:
        for way, start in bench.some([*WAYS[database].items()]):
            with start() as urls:
                one(bench, database, way, urls)


def one(bench: Bench, database: str, way: str, urls: Urls) -> None:
    """Measure what these URLs lead to."""
    at = {f"DATABASE_URL_{database.upper()}": urls[0], "BENCH_OTHER": urls[1]}
    bench.run("fill", 0, "nothing", database=database, **at)
    answer = bench.run("through_nodes", bench.size(ROUNDS), database=database, **at)
    for call in ("add", "cancel"):
        bench.note(database, PRODUCT, f"{way}: {call}", "ms, median", 1000 * answer[call]["seconds"])
        bench.note(database, PRODUCT, f"{way}: {call}", "statements", answer[call]["statements"])
    bench.note(database, PRODUCT, f"{way}: cancel", "MISSING", answer["missing"])
    tasks = bench.size(TASKS)
    bench.run("fill", tasks, "nothing", database=database, **at)
    answers = together(bench, database, [("drain",)], **at)
    bench.note(database, PRODUCT, f"{way}: drain", RATE, tasks / seconds_of(answers))


GOALS: list[Goal] = []

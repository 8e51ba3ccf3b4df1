"""Which peers are measured, where, and with what settings: each with its defaults and, where it gains, tuned."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness import ROOT

PROGRAMS = "harness.benchmarks.peers.programs"
WORKERS = (1, 2)

ENQUEUE = ("python", "-m", f"{PROGRAMS}.enqueue_django")
"""Enqueues with a backend of django.tasks, one by one."""


@dataclass(frozen=True)
class Way:
    """One way to set a peer up, and how many tasks it has in a measurement of some seconds."""

    name: str
    tasks: int
    worker: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def variant(self, workers: int) -> str:
        """Return the variant as figures name it."""
        return f"{self.name}, {workers} worker" + ("s" if workers > 1 else "")


@dataclass(frozen=True)
class Peer:
    """A queue, the databases on which it is measured, and the program that enqueues."""

    name: str
    databases: tuple[str, ...]
    fill: tuple[str, ...]
    ways: tuple[Way, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def django(name: str, databases: tuple[str, ...], *ways: Way) -> Peer:
    """A backend of django.tasks. Logging is off and connections are kept, which all of them gain by."""
    environment = {"PEER": name, "DJANGO_SETTINGS_MODULE": f"{PROGRAMS}.settings"}
    return Peer(name, databases, ("python", "-m", f"{PROGRAMS}.fill_django"), ways, environment)


def command(*words: str) -> tuple[str, ...]:
    """A command of the Django project."""
    return ("python", "-m", "django", *words, "--verbosity", "0")


def huey(database: str, tasks: int) -> Peer:
    """Consumers with two workers each: threads that wait longer and longer, or processes that do not."""
    consumer = ("python", "-m", "huey.bin.huey_consumer", f"{PROGRAMS}.huey_app.huey", "--quiet", "--workers", "2")
    tuned = ("--worker-type", "process", "--delay", "0.1", "--backoff", "1")
    return Peer(
        "huey",
        (database,),
        ("python", "-m", f"{PROGRAMS}.fill_huey"),
        (
            Way("2 threads", tasks, consumer),
            Way("tuned: 2 processes, no back-off", tasks, (*consumer, *tuned)),
        ),
    )


def graphile_worker() -> Peer:
    """The one that is not in Python. Batched, it gets far more tasks, because it needs a second to start."""
    program = ("node", str(ROOT / "harness" / "benchmarks" / "peers" / "programs" / "graphile.js"))
    default = {"concurrentJobs": 10, "maxPoolSize": 12}
    tuned = {"concurrentJobs": 24, "maxPoolSize": 25, "localQueue": {"size": 500}, "completeJobBatchDelay": 0}
    return Peer(
        "graphile-worker",
        ("postgres",),
        (*program, "fill"),
        (
            Way("10 jobs at once", 15_000, (*program, "work"), {"PEER_OPTIONS": json.dumps(default)}),
            Way("tuned: batched", 200_000, (*program, "work"), {"PEER_OPTIONS": json.dumps(tuned)}),
        ),
        {"NO_LOG_SUCCESS": "1"},
    )


DJANGO_TASKS_DB = django(
    "django-tasks-db",
    ("mariadb", "postgres", "sqlite"),
    Way("default", 2000, command("db_worker", "--no-startup-delay")),
)
DJANGO_OX = django(
    "django-ox",
    ("mariadb", "postgres"),
    Way("default", 1500, command("ox_worker")),
    Way("tuned: 4 threads", 2500, command("ox_worker", "--concurrency", "4", "--interval", "0.1")),
)
DJ_QUEUE = django(
    "dj-queue",
    ("mariadb", "postgres"),
    Way("default", 2000, command("dj_queue")),
    Way(
        "tuned: prefetch 100",
        5000,
        command("dj_queue"),
        {
            "PEER_OPTIONS": json.dumps(
                {
                    "workers": [{"polling_interval": 0.05, "prefetch_multiplier": 100}],
                    "dispatchers": [{"polling_interval": 0.1}],
                }
            )
        },
    ),
)
HUEY_REDIS = huey("redis", 20_000)
HUEY_SQLITE = huey("sqlite", 10_000)
PGQUEUER = Peer(
    "pgqueuer",
    ("postgres",),
    ("python", "-m", f"{PROGRAMS}.pgqueuer_app", "fill"),
    (Way("default", 30_000, ("python", "-m", f"{PROGRAMS}.pgqueuer_app", "work")),),
)
GRAPHILE_WORKER = graphile_worker()
PEERS = (DJANGO_TASKS_DB, DJANGO_OX, DJ_QUEUE, HUEY_REDIS, HUEY_SQLITE, PGQUEUER, GRAPHILE_WORKER)

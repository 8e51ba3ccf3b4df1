"""6. Claim, settle, add, cancel, reschedule and reap on one hot set of identities, all at once."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connection, connections, transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.settling.reap import reap as reap_orphans
from harness.torture.crowd import Crowd
from harness.torture.faults.processes import Kill
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

HOT = 20
"""Identities: few enough for every call to meet others."""
CODES = ("t-plain", "t-atomic", "t-again", "t-retrying", "t-atomic-flaky")
KILL_EVERY = 4.0
COUNTS = {
    "mariadb": "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_DEADLOCKS'",
    "mysql": "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'",
    "postgres": "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
}


@register
class Deadlocks(Scenario):
    name = "deadlocks"
    number = 6
    title = "claim, settle, add, cancel, reschedule and reap on one hot set"
    sizes = {
        "short": Size(tasks=200, faults=1, executors=2, threads=6, extra=2),
        "full": Size(tasks=12_000, faults=20, executors=3, threads=8, extra=4),
    }
    settings = {"LEASE": 30, "HEARTBEAT": 1}  # threads get the lock of SQLite in no order
    databases = EVERYWHERE - {"galera"}
    environment: dict[str, str] = {}

    def run(self, world: World) -> None:
        before = deadlocks(world)
        world.cluster.start_many(world.size.executors, environment=self.environment, settings=self.settings)
        calls, reapers = Crowd(world), Crowd(world)
        reapers.add(1, reap)
        reapers.add(world.size.extra, entangle)
        calls.add(world.size.threads, lambda dice: call(world, dice), world.size.tasks // world.size.threads)
        killed = time.monotonic()
        while calls.is_going_on:
            world.sleep(0.1)
            if time.monotonic() - killed > KILL_EVERY and world.tally.faults[Kill.kind] < world.size.faults:
                killed = time.monotonic()
                world.inject(Kill())
        calls.finish()
        reapers.finish()
        if met := deadlocks(world) - before:
            world.tally.faults["deadlock on the hot set"] += met


@register
class DeadlocksRepeatable(Deadlocks):
    name = "deadlocks-repeatable"
    title = "the same while every session is REPEATABLE READ"
    databases = frozenset({"mariadb", "mysql"})
    environment = {"DJANGO_SETTINGS_MODULE": "harness.torture.repeatable_settings"}

    def run(self, world: World) -> None:
        with driver_isolation("repeatable read"):
            super().run(world)


@contextmanager
def driver_isolation(level: str) -> Iterator[None]:
    """New connections of the driver have this isolation level."""
    options = connections.settings["default"]["OPTIONS"]
    usual = options["isolation_level"]
    options["isolation_level"] = level
    connection.close()
    try:
        yield
    finally:
        options["isolation_level"] = usual
        connection.close()


def call(world: World, dice: random.Random) -> None:
    """Make one call on one of the hot identities."""
    identity = hot(dice)
    match dice.choices(("add", "keep", "raise", "cancel", "reschedule"), (5, 1, 1, 2, 3))[0]:
        case "cancel":
            world.caller.cancel(*identity)
        case "reschedule":
            world.caller.reschedule(*identity, soon(dice))
        case "add":
            world.caller.add(*identity, soon(dice), data(dice))
        case mode:
            world.caller.add(*identity, soon(dice), data(dice), if_exists=mode)


def entangle(dice: random.Random) -> None:
    """A transaction of a caller's that touches several of them in any order, and is undone: it leaves locks alone."""
    try:
        with transaction.atomic():
            for _ in range(4):
                code, num = hot(dice)
                match dice.randrange(3):
                    case 0:
                        api.add_task(Task(biz_code=code, biz_num=num, biz_ext={"nonce": 0}))
                    case 1:
                        api.reschedule_task(code, num, None)
                    case _:
                        api.cancel_task(code, num)
            transaction.set_rollback(True)
    except DatabaseError:
        connection.close()


def hot(dice: random.Random) -> tuple[str, str]:
    """Return one of the hot identities."""
    number = dice.randrange(HOT)
    return CODES[number % len(CODES)], f"hot {number}"


def soon(dice: random.Random) -> timedelta | None:
    return None if dice.random() < 0.7 else timedelta(seconds=dice.uniform(0, 0.3))


def data(dice: random.Random) -> dict[str, Any]:
    return {"seconds": dice.choice((0.0, 0.01)), "fail": dice.randint(0, 1), "again": dice.randint(0, 2)}


def reap(dice: random.Random) -> None:
    """Reap as every executor does, but without a pause."""
    try:
        reap_orphans("default", max_rescues=1000)
    except DatabaseError:
        connection.close()
    time.sleep(0.02)


def deadlocks(world: World) -> int:
    """Return how many deadlocks the server has seen since it was started (0 on a database without deadlocks)."""
    query = COUNTS.get(world.database.kind)
    if query is None:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])

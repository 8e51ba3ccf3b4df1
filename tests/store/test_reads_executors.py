"""What is read of executors depends on the live ones, not on how many have ended, nor on the history."""

from datetime import timedelta

from django_delayed_tasks.models import Executor, TaskRun
from django_delayed_tasks.states import ExecutorStatus, RunOutcome
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.records.history import oldest
from django_delayed_tasks.store.settling.reap import reap
from tests.store import verbs
from tests.store.test_reads import excess, refresh_statistics
from tests.store.verbs import ALIAS, HOUR, NOW

ENDED, RUNS, LIVE, TASKS = 3_000, 3_000, 3, 5
LEASE = timedelta(minutes=1)


def fill() -> list[int]:
    """Many executors that ended, one each microsecond, of the names of those that are alive; their ids."""
    identity = {"host": "vm", "pid": 1, "threads": 1, "started_at": NOW, "heartbeat_at": NOW}
    how = {"alive": None, "status": ExecutorStatus.STOPPED}
    Executor.objects.bulk_create(
        Executor(name=f"web{i % LIVE}", expires_at=NOW + timedelta(microseconds=i), **identity, **how)
        for i in range(ENDED)
    )
    run = {"task_id": 1, "version": 1, "biz_code": "a", "biz_num": "1", "when": NOW, "attempt": 1, "finished": NOW}
    TaskRun.objects.bulk_create(TaskRun(**run, outcome=RunOutcome.DONE, executor=i) for i in range(RUNS))
    return [register(f"web{i}") for i in range(LIVE)]


def register(name: str) -> int:
    identity = executors.Registration(name, "host", 4711, 8, ("a",))
    return executors.register(ALIAS, identity, LEASE, lambda host, pid: False)


def test_reads_about_executors(live_db: str) -> None:
    first, second, third = fill()
    for number, executor in enumerate((first, second)):
        for i in range(TASKS):
            verbs.add(f"{number}-{i}")
        verbs.claim(executor=executor)
    refresh_statistics(live_db)
    found = {
        "live": excess(live_db, 3 * LIVE, lambda: executors.live(ALIAS)),
        "renew": excess(live_db, 5, lambda: executors.renew(ALIAS, first, LEASE)),
        "declare none dead": excess(live_db, 3 * LIVE, lambda: executors.declare_expired_dead(ALIAS)),
        "register": excess(live_db, 10 * LIVE, lambda: register("new")),
        "reap nothing": excess(live_db, 20 * TASKS, lambda: reap(ALIAS, 3)),
        "the oldest run": excess(live_db, 110, lambda: oldest(ALIAS)),
        "purge none": excess(live_db, 3, lambda: executors.purge_ended(ALIAS, NOW, 1000)),
        "purge five": excess(live_db, 30, lambda: executors.purge_ended(ALIAS, NOW + timedelta(microseconds=5), 1000)),
    }
    executors.renew(ALIAS, second, -HOUR)
    found["declare one dead"] = excess(live_db, 5 * LIVE, lambda: executors.declare_expired_dead(ALIAS))
    found["reap"] = excess(live_db, 40 * TASKS, lambda: reap(ALIAS, 3))
    found["retire"] = excess(live_db, 5, lambda: executors.retire(ALIAS, third))
    assert {name: figures for name, figures in found.items() if figures} == {}
    assert Executor.objects.count() == ENDED + LIVE + 1 - 5

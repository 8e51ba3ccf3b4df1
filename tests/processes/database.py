"""What the test database says: for tests and for the handlers of their children."""

from datetime import datetime

from django.db import connection

from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.sql.dialects import dialect_of
from tests.processes.waiting import wait_until


def database_now() -> datetime:
    """The present moment by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {dialect_of(connection).now}")
        return dialect_of(connection).to_datetime(cursor.fetchone()[0])


def task(code: str, num: str) -> Task | None:
    """The live row of this identity."""
    return Task.objects.filter(biz_code=code, biz_num=num).first()


def count(status: TaskStatus, **wanted: str) -> int:
    """Return how many live rows have this status."""
    return Task.objects.filter(status=status, **wanted).count()


def outcomes(code: str, num: str) -> list[RunOutcome]:
    """Return the outcomes of the runs of one identity, in order."""
    rows = TaskRun.objects.filter(biz_code=code, biz_num=num).order_by("id")
    return [RunOutcome(row.outcome) for row in rows]


def is_settled(code: str, num: str) -> bool:
    """Whether the last run of this identity ended well and its task is gone."""
    return outcomes(code, num)[-1:] == [RunOutcome.DONE] and task(code, num) is None


def incarnations(name: str) -> list[Executor]:
    """The rows of one executor's name, the oldest first."""
    return list(Executor.objects.filter(name=name).order_by("started_at"))


def alive(name: str) -> Executor | None:
    """The live row of this name."""
    return Executor.objects.filter(name=name, alive=True).first()


def await_heartbeats(name: str, times: int = 1) -> None:
    """Wait until the newest executor of this name has renewed its lease ``times`` times."""
    for _ in range(times):
        before = incarnations(name)[-1].heartbeat_at
        wait_until(lambda seen=before: incarnations(name)[-1].heartbeat_at > seen)  # type: ignore[misc]

"""Small queries while the load runs. Any of them may raise DatabaseError, which ``world.wait_until`` tolerates."""

from typing import Any

from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from harness.torture.models import Effect


def held(pid: int) -> int:
    """Return how many tasks a process has claimed."""
    owners = Executor.objects.filter(pid=pid).values("id")
    return Task.objects.filter(status=TaskStatus.RUNNING, executor__in=owners).count()


def in_mid_handler(pid: int) -> int:
    """Return how many runs, atomic ones left out, a process has begun and still holds the claims of."""
    begun = Effect.objects.filter(process=pid, kind="begin").order_by("-id").values_list("task_id", "version")[:50]
    claims = set(Task.objects.filter(status=TaskStatus.RUNNING).values_list("id", "version"))
    return len(claims & set(begun))


def count(status: TaskStatus, **wanted: Any) -> int:
    """Return how many live rows are in this state."""
    return Task.objects.filter(status=status, **wanted).count()


def is_declared_dead(executor: int) -> bool:
    """Whether this incarnation is not alive any more."""
    return Executor.objects.filter(id=executor, alive=None).exists()


def is_stopping(pid: int) -> bool:
    """Whether the executor of this process has said that it stops."""
    return Executor.objects.filter(pid=pid, alive=True, status=ExecutorStatus.STOPPING).exists()


def leases_are_over() -> bool:
    """Whether the leases of all live executors have run out."""
    from harness.torture.calls import database_now

    return not Executor.objects.filter(alive=True, expires_at__gt=database_now()).exists()


def incarnation(name: str) -> int:
    """The newest id of this executor's name; 0 if it has none."""
    return Executor.objects.filter(name=name).order_by("-started_at").values_list("id", flat=True).first() or 0


def newest_live(name: str) -> int:
    """The id under which this name is alive; 0 if it is not."""
    return Executor.objects.filter(name=name, alive=True).values_list("id", flat=True).first() or 0


def runs_of(executor: int, **wanted: Any) -> int:
    """Return how many runs of this incarnation the history has."""
    return TaskRun.objects.filter(executor=executor, **wanted).count()


def pending_due() -> int:
    """Return how many tasks could be claimed at once."""
    from harness.torture.calls import database_now

    return Task.objects.filter(status=TaskStatus.PENDING, claim_at__lte=database_now()).count()


def any_is_done() -> bool:
    """Whether the history has a run that went well."""
    return TaskRun.objects.filter(outcome=RunOutcome.DONE).exists()

"""Executors that vanish without a word."""

from django.db.models import F

from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus


def crash(executor: int) -> None:
    """Do what another executor does that sees the lease of this one run out."""
    Executor.objects.filter(pk=executor).update(alive=None, status=ExecutorStatus.CRASHED, expires_at=F("heartbeat_at"))

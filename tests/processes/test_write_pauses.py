"""The database takes no writes for longer than a lease, as during a backup or a failover, and takes them again."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.sql.tables import EXECUTOR, RUN, TASK
from tests.processes.conftest import Start
from tests.processes.database import await_heartbeats, database_now, is_settled, outcomes
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.per_database

SHORT_LEASE = {"LEASE": 3, "HEARTBEAT": 0.75}
PAUSES = 4


@contextmanager
def no_writes() -> Iterator[None]:
    """Let others read from the tables, and not write to them."""
    if connection.vendor == "sqlite":
        holder = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, timeout=30)
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.close()
        return
    lock, unlock = {
        "postgresql": ("LOCK TABLE {} IN SHARE MODE", "SELECT 1"),
        "mysql": ("LOCK TABLES {} READ", "UNLOCK TABLES"),
    }[connection.vendor]
    tables = " READ, ".join((EXECUTOR, RUN, TASK)) if connection.vendor == "mysql" else ", ".join((EXECUTOR, RUN, TASK))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(lock.format(tables))
        yield
        cursor.execute(unlock)


def leases_are_over() -> bool:
    return max(Executor.objects.values_list("expires_at", flat=True)) < database_now()


def test_none_is_declared_dead_and_the_runs_go_on(starttask: Start, folder: Folder) -> None:
    names = ("one", "two")
    for name in names:
        folder.shut(name)
        starttask("--name", name, "--threads", "1", **SHORT_LEASE).wait_until_ready()
        add_task(Task(biz_code="held", biz_num=name))
        wait_until(lambda num=name: folder.notes("started", num))  # type: ignore[misc]
    before = set(Executor.objects.values_list("pk", "alive"))

    for _ in range(PAUSES):
        with no_writes():
            wait_until(leases_are_over)
        for name in names:
            await_heartbeats(name, 3)
        assert set(Executor.objects.values_list("pk", "alive")) == before
        assert set(Task.objects.values_list("status", "version", "rescues")) == {(TaskStatus.RUNNING, 1, 0)}

    folder.open_all()
    for name in names:
        wait_until(lambda num=name: is_settled("held", num))  # type: ignore[misc]
        assert outcomes("held", name) == [RunOutcome.DONE]
        assert len(folder.notes("started", name)) == 1

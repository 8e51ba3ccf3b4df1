"""In an executor: write into the ledger what a run did, and whether its claim was the row's then."""

import os
from typing import Any

from django.db import connections

from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import RUNNING, TASK
from harness.torture.models import Effect


def observe(kind: str, task: Any) -> None:
    """Write one row of the ledger, in the caller's transaction if there is one."""
    connection = connections[task.alias]
    with connection.cursor() as cursor:
        # One statement: the moment and the row belong together.
        cursor.execute(
            f"SELECT {dialect_of(connection).now}, (SELECT COUNT(*) FROM {TASK} WHERE id = %s AND version = %s"
            f" AND status = {RUNNING} AND executor = %s)",
            [task.id, task.version, task.executor],
        )
        at, held = cursor.fetchone()
    Effect.objects.using(task.alias).create(
        kind=kind,
        task_id=task.id,
        version=task.version,
        biz_code=task.biz_code,
        biz_num=task.biz_num,
        when=task.when,
        text=(task.biz_ext or {}).get("text", ""),
        nonce=(task.biz_ext or {}).get("nonce", 0),
        executor=task.executor,
        process=os.getpid(),
        held=bool(held),
        at=dialect_of(connection).to_datetime(at),
    )

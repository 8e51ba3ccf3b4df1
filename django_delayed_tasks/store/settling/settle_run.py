"""Settling one run in the transaction that holds its effects: two statements if nothing else has happened."""

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.records.history import COLUMNS
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import fence, in_status
from django_delayed_tasks.store.sql.tables import RUN, RUNNING, TASK


def settle_run(alias: str, task: ClaimedTask, settlement: Settlement) -> bool:
    """Settle a run in the transaction that holds its effects, if its task is then gone and no schedule was deferred.

    Return False, with nothing written, if the run must be settled in another way. The history row is written from the
    claimed task, whose columns do not change while the claim is held.
    """
    if settlement.then is not Then.GONE or settlement.once:
        return False
    dialect = dialect_of(connections[alias])
    with connections[alias].cursor() as cursor:
        held = f"{fence([task.claim])} AND {in_status(RUNNING)} AND deferred_when IS NULL"
        cursor.execute(f"{dialect.delete(TASK)} WHERE {held}")
        if not cursor.rowcount:
            return False
        if settlement.keep:
            _record_run(cursor, dialect, task, settlement)
    return True


def _record_run(cursor: CursorWrapper, dialect: Dialect, task: ClaimedTask, settlement: Settlement) -> None:
    when = settlement.stood_for or task.when
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {dialect.json('%s')}, %s)",
        [
            *task.claim, task.biz_code, task.biz_num, dialect.stored(when), task.attempts, task.executor,
            int(settlement.outcome), settlement.started and dialect.stored(settlement.started),
            settlement.finished and dialect.stored(settlement.finished), settlement.result, settlement.error,
        ],
    )  # fmt: skip

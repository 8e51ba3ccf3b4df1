"""The driver's API calls. Each is one transaction with its row of the ledger, and is repeated until it is known."""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, transaction

from django_delayed_tasks import api, clock
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.dialects import dialect_of
from tests.torture.models import Accepted

When = datetime | timedelta | None
UNCHANGING = ("missing", "exists", "kept")
"""Results of calls that left everything as it was."""
_FIELDS = ("id", "version", "status", "when", "deferred_when")
_GONE = ("task_id", "version")


class NotKnown(Exception):
    """Told to stop before the database said what became of a call. It may or may not have been accepted."""


@dataclass(frozen=True)
class Call:
    """One call, to be made once. ``work()`` makes it and says what it did."""

    sequence: int
    verb: str
    code: str
    num: str
    nonce: int | None
    work: Callable[[], str]


class Caller:
    """Makes calls on the default database; may be used by several threads. There is one for each world."""

    def __init__(self, stop: Event | None = None) -> None:
        self._stop = stop or Event()
        self._sequences = itertools.count(1)
        self.unanswered = 0
        """Calls whose COMMIT's answer was lost and that turned out to be accepted."""

    def add(
        self,
        code: str,
        num: str,
        when: When = None,
        data: Mapping[str, Any] | None = None,
        if_exists: str = "replace",
        **fields: Any,
    ) -> Accepted:
        """``add_task``; ``data`` is the handler's, ``fields`` are ``queue`` and ``priority``."""
        sequence = next(self._sequences)

        def work() -> str:
            task = Task(biz_code=code, biz_num=num, when=when, biz_ext={**(data or {}), "nonce": sequence}, **fields)
            try:
                with transaction.atomic():
                    result = api.add_task(task, if_exists=if_exists)
            except TaskExists:
                return "exists"
            return str(result.action)

        return self._make(Call(sequence, "add", code, num, sequence, work))

    def cancel(self, code: str, num: str) -> Accepted:
        """``cancel_task``."""

        def work() -> str:
            return str(api.cancel_task(code, num))

        return self._make(Call(next(self._sequences), "cancel", code, num, None, work))

    def reschedule(self, code: str, num: str, when: When) -> Accepted:
        """``reschedule_task``."""

        def work() -> str:
            return "moved" if api.reschedule_task(code, num, when) else "missing"

        return self._make(Call(next(self._sequences), "reschedule", code, num, None, work))

    def _make(self, call: Call) -> Accepted:
        pause, lost = 0.02, False
        while True:
            try:
                accepted = self._found(call) if lost else None
                self.unanswered += accepted is not None
                return accepted or self._attempt(call)
            except (DatabaseError, InterfaceError) as error:
                # Also an IntegrityError: the first try's COMMIT has arrived after all, and is found next time.
                lost = True
                connection.close()
                if self._stop.wait(pause):
                    raise NotKnown(f"{call.verb} {call.code} {call.num} ({call.sequence}): {error}") from error
                pause = min(1.0, pause * 1.5)

    def _found(self, call: Call) -> Accepted | None:
        return Accepted.objects.filter(sequence=call.sequence).first()

    def _attempt(self, call: Call) -> Accepted:
        with transaction.atomic():
            at = database_now()
            result = call.work()
            return Accepted.objects.create(
                sequence=call.sequence,
                verb=call.verb,
                biz_code=call.code,
                biz_num=call.num,
                nonce=call.nonce,
                at=at,
                **{"result": result, **_after(call, result)},
            )


def _after(call: Call, result: str) -> dict[str, Any]:
    """The row as this call left it, read in its transaction: it is locked, unless the call changed nothing."""
    identity = {"biz_code": call.code, "biz_num": call.num}
    if result in UNCHANGING:
        return {}
    if result == "cancelled":
        gone = TaskRun.objects.filter(outcome=RunOutcome.CANCELLED, **identity).order_by("-id").values(*_GONE)[0]
        return {"task_id": gone["task_id"], "version": gone["version"]}
    row = Task.objects.filter(**identity).values(*_FIELDS).get()
    is_beside = row["status"] == TaskStatus.RUNNING and row["deferred_when"] is not None
    after = {"task_id": row["id"], "version": row["version"], "when": row["deferred_when" if is_beside else "when"]}
    return {**after, "result": "beside"} if result == "moved" and is_beside else after


def database_now() -> datetime:
    """The present moment by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {clock.sql_now(connection)}")
        return dialect_of(connection).to_datetime(cursor.fetchone()[0])


def wait_for_database(patience: float = 90.0) -> None:
    """Until the default database answers.

    Raises:
        DatabaseError: it does not, for so many seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            database_now()
            return
        except DatabaseError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)

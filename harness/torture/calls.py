"""The driver's API calls. Each is one transaction with its row of the ledger, and is repeated until it is known."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event, Lock
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, connections, transaction

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.kept_connections import discard_unusable
from harness.torture.models import Accepted
from harness.torture.texts import text_of

When = datetime | timedelta | None
UNCHANGING = ("missing", "exists", "kept", "filtered")
"""Results of calls that left everything as it was."""
_FIELDS = ("id", "version", "status", "when", "deferred_when")
_GONE = ("task_id", "version")


class NotKnown(Exception):
    """Told to stop before the database said what became of a call. It may or may not have been accepted."""


@dataclass(frozen=True)
class Call:
    """One call about one identity. Every call up to ``after`` was answered before this one began."""

    sequence: int
    after: int
    verb: str
    code: str
    num: str
    nonce: int | None
    mode: str


Work = Callable[[], Sequence[str]]
"""Makes calls; what each of them did."""


class Caller:
    """Makes calls on the default database; may be used by several threads. There is one for each world."""

    def __init__(self, stop: Event | None = None) -> None:
        self._stop = stop or Event()
        self._lock = Lock()
        self._last = 0
        self._open: set[int] = set()
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
        """``add_task``; ``data`` is the handler's, ``fields`` are ``queue`` and ``priority``.

        ``if_exists`` may be "once", which is an add with ``once`` that replaces.
        """
        call = self._begin("add", code, num, if_exists)
        task = _task(call, when, data, fields)
        options: dict[str, Any] = {"once": True} if if_exists == "once" else {"if_exists": if_exists}

        def work() -> list[str]:
            try:
                with transaction.atomic():
                    return [str(api.add_task(task, **options).action)]
            except TaskExists:
                return ["exists"]

        return self._make([call], work)[0]

    def add_many(
        self, identities: Sequence[tuple[str, str]], when: When = None, data: Mapping[str, Any] | None = None
    ) -> list[Accepted]:
        """``add_tasks`` of identities that are new, each with the same data but for its nonce and text."""
        calls = [self._begin("add", code, num, "replace") for code, num in identities]
        tasks = [_task(call, when, data, {}) for call in calls]

        def work() -> list[str]:
            api.add_tasks(tasks)
            return ["created"] * len(tasks)

        return self._make(calls, work)

    def cancel(self, code: str, num: str) -> Accepted:
        """``cancel_task``."""

        return self._make([self._begin("cancel", code, num)], lambda: [str(api.cancel_task(code, num))])[0]

    def reschedule(self, code: str, num: str, when: When) -> Accepted:
        """``reschedule_task``."""

        def work() -> list[str]:
            return ["moved" if api.reschedule_task(code, num, when) else "missing"]

        return self._make([self._begin("reschedule", code, num)], work)[0]

    def _begin(self, verb: str, code: str, num: str, mode: str = "") -> Call:
        with self._lock:
            self._last += 1
            after = min(self._open, default=self._last) - 1
            self._open.add(self._last)
            return Call(self._last, after, verb, code, num, self._last if verb == "add" else None, mode)

    def _make(self, calls: Sequence[Call], work: Work) -> list[Accepted]:
        """Make the calls in one transaction with their ledger rows. One that ends with NotKnown is never answered."""
        accepted = self._insist(calls, work)
        with self._lock:
            self._open.difference_update(call.sequence for call in calls)
        return accepted

    def _insist(self, calls: Sequence[Call], work: Work) -> list[Accepted]:
        pause, lost, first = 0.02, False, calls[0]
        while True:
            try:
                accepted = self._found(calls) if lost else []
                self.unanswered += len(accepted)
                return accepted or self._attempt(calls, work)
            except (DatabaseError, InterfaceError) as error:
                # Also an IntegrityError: the first try's COMMIT has arrived after all, and is found next time.
                lost = True
                discard_unusable(
                    connections["default"]
                )  # a session that a failover has made read-only, which a pool would lend again
                connection.close()
                if self._stop.wait(pause):
                    raise NotKnown(f"{first.verb} {first.code} {first.num} ({first.sequence}): {error}") from error
                pause = min(1.0, pause * 1.5)

    def _found(self, calls: Sequence[Call]) -> list[Accepted]:
        return list(Accepted.objects.filter(sequence__in=[call.sequence for call in calls]).order_by("sequence"))

    def _attempt(self, calls: Sequence[Call], work: Work) -> list[Accepted]:
        with transaction.atomic():
            at = database_now()
            return [_accept(call, result, at) for call, result in zip(calls, work(), strict=True)]


def _task(call: Call, when: When, data: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> Task:
    given = {**(data or {}), "nonce": call.sequence, "text": text_of(call.sequence)}
    return Task(biz_code=call.code, biz_num=call.num, when=when, biz_ext=given, **fields)


def _accept(call: Call, result: str, at: datetime) -> Accepted:
    return Accepted.objects.create(
        sequence=call.sequence,
        after=call.after,
        verb=call.verb,
        biz_code=call.code,
        biz_num=call.num,
        mode=call.mode,
        nonce=call.nonce,
        at=at,
        **{"result": result, **_after(call, result)},
    )


def _after(call: Call, result: str) -> dict[str, Any]:
    """The row as this call left it, read in its transaction: it is locked, unless the call changed nothing.

    Nothing if there is none: an invariant says so.
    """
    identity = {"biz_code": call.code, "biz_num": call.num}
    if result in UNCHANGING:
        return {}
    if result == "cancelled":
        gone = TaskRun.objects.filter(outcome=RunOutcome.CANCELLED, **identity).order_by("-id").values(*_GONE)[0]
        return {"task_id": gone["task_id"], "version": gone["version"]}
    row = Task.objects.filter(**identity).values(*_FIELDS).first()
    if row is None:
        return {}
    is_deferred = row["status"] == TaskStatus.RUNNING and row["deferred_when"] is not None
    after = {"task_id": row["id"], "version": row["version"], "when": row["deferred_when" if is_deferred else "when"]}
    return {**after, "result": "after_run"} if result == "moved" and is_deferred else after


def database_now() -> datetime:
    """The present moment by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {dialect_of(connection).now}")
        return dialect_of(connection).to_datetime(cursor.fetchone()[0])


def wait_for_database(patience: float = 90.0) -> None:
    """Wait until the default database answers.

    Raises:
        DatabaseError: it does not answer for ``patience`` seconds.
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

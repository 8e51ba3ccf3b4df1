"""The rehearsal: statements of this library, tried on rows of their own in a transaction that is rolled back.

A setting of a session can make the database refuse a statement, or change its effect. There are too many settings to
know them all, so the statements themselves are tried: see docs/decisions/0032.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from django.db import connections, transaction

from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import AddAction, CancelResult, IfExists, NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.affinity import Affinity
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.executors import Registration, register, renew
from django_delayed_tasks.store.records.progress import Report, write_progress
from django_delayed_tasks.store.schedules.add import add
from django_delayed_tasks.store.schedules.add_many import add_many, add_once
from django_delayed_tasks.store.schedules.verbs import CANCEL, cancel
from django_delayed_tasks.store.settling.settle import settle, settle_run
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import is_transient
from django_delayed_tasks.store.validation import Schedule

CODE: Final = "django_delayed_tasks.rehearsal"
"""The code of the rows of a rehearsal. No other transaction sees these rows."""
_PAST: Final = datetime(2001, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)
"""A time that has come, with all digits that are stored."""
_FUTURE: Final = datetime(2099, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)
"""A time that has not."""
_DATA: Final = {"text": "a\\b'c\"d||e`%s\n", "empty": "", "list": [1, 2.5, None]}
"""Data with what a mode or an option may read in another way."""
_LEASE: Final = timedelta(minutes=1)
"""The lease of an executor that is gone at once."""
_ERROR: Final = "a\\'b"


class Differs(Exception):
    """A statement had another effect than this library relies on."""


def rehearse(alias: str) -> str:
    """Try what adding, claiming and ending tasks does, in a transaction that is rolled back.

    Return the first error, or the first effect that was another one; an empty text if there was none, or if the
    database was too busy to tell, which is no setting.
    """
    connection = connections[alias]
    try:
        with dialect_of(connection).turn(), transaction.atomic(using=alias):
            _Rehearsal(alias).play()
            transaction.set_rollback(True, using=alias)
        _same("what is left of a transaction that was rolled back", _tasks(alias).count(), 0)
    except Differs as error:
        return str(error)
    except Exception as error:  # a driver raises ValueError and others for what it cannot read
        if is_transient(error):
            return ""
        if not connection.in_atomic_block and not connection.is_usable():  # some settings end sessions
            connection.close()
        return f"{type(error).__name__}: {error}"
    return ""


def _same(subject: str, found: Any, expected: Any) -> None:
    if isinstance(found, list) and len(found) == len(expected):
        for one, other in zip(found, expected, strict=True):
            _same(subject, one, other)
    elif found != expected:
        raise Differs(f"{subject}: {found!r} instead of {expected!r}")


def _tasks(alias: str) -> Any:
    return Task.objects.using(alias).filter(biz_code=CODE)


def _sorted(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows in the order of their numbers: a database may be told to compare beginnings of texts only."""
    return sorted(rows, key=itemgetter(0))


class _Rehearsal:
    """An executor without threads, and its tasks, in a queue that no other executor reads."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._queue = ""
        self._executor = 0

    def play(self) -> None:
        """Call each verb, and compare what it answers, and what is in the tables then.

        Raises:
            Differs: something had another effect.
        """
        # First what writes: on SQLite a transaction that has read may not be able to write any more.
        self._executor = register(self._alias, Registration(CODE, "", 0, 1, ()), _LEASE, _is_gone)
        self._queue = f"rehearsal-{self._executor}"
        _same("renewing a lease", renew(self._alias, self._executor, _LEASE), True)
        self._add()
        self._look()
        runs = {run.biz_num: run for run in self._claim()}
        _same("claiming tasks that are due", sorted(runs), sorted(map(self._num, ["1", "2", "3", "4", "once"])))
        self._run(runs)
        self._end(runs)

    def _num(self, num: str) -> str:
        return f"{self._executor}-{num}"

    def _schedule(self, num: str, when: datetime = _PAST, *, once: bool | None = None) -> Schedule:
        return Schedule(CODE, self._num(num), when, json.dumps(_DATA), self._queue, 0, once=once)

    def _add(self) -> None:
        for if_exists, when, expected in (
            (IfExists.REPLACE, _FUTURE, AddAction.CREATED),
            (IfExists.KEEP, _FUTURE, AddAction.KEPT),
            (IfExists.LATEST, _PAST, AddAction.KEPT),
            (IfExists.EARLIEST, _PAST, AddAction.REPLACED),
            (IfExists.REPLACE, _PAST, AddAction.REPLACED),
        ):
            _same(f"adding ({if_exists})", add(self._alias, self._schedule("1", when), if_exists).action, expected)
        many = [self._schedule(num) for num in ("2", "3", "4")]
        _same("adding many", add_many(self._alias, many, IfExists.REPLACE, len(many)), len(many))
        _same("adding many again", add_many(self._alias, many, IfExists.KEEP, len(many)), 0)
        _same(
            "adding later", add(self._alias, self._schedule("5", _FUTURE), IfExists.REPLACE).action, AddAction.CREATED
        )
        _same("adding once", self._add_once(), AddAction.CREATED)

    def _add_once(self) -> AddAction:
        return add_once(self._alias, self._schedule("once", once=True), IfExists.REPLACE).action

    def _look(self) -> None:
        found = _tasks(self._alias).filter(queue=self._queue)
        rows = _sorted(found.values_list("biz_num", "when", "biz_ext", "status", "version"))
        expected = [
            (self._num(num), _FUTURE if num == "5" else _PAST, _DATA, TaskStatus.PENDING, 2 if num == "1" else 0)
            for num in ("1", "2", "3", "4", "5", "once")
        ]
        _same("what was added", rows, expected)
        _same("due levels", [level.queue for level in read_agenda(self._alias).due()].count(self._queue), 1)

    def _claim(self) -> list[ClaimedTask]:
        request = ClaimRequest(self._executor, self._queue, 0, limit=100)
        dialect = dialect_of(connections[self._alias])
        if dialect.claiming != "compare_and_set":
            return strategy_for(self._alias, "auto")(self._alias, request)
        # Not the strategy itself, which sets how long the session waits for locks from then on.
        chosen = compare_and_set.read_candidates(Affinity(self._alias, dialect, request))
        with connections[self._alias].cursor() as cursor:
            if chosen:
                cursor.execute(compare_and_set.update_of(dialect, self._executor, chosen))
                _same("rows that a claim changes", cursor.rowcount, len(chosen))
        return chosen

    def _run(self, runs: dict[str, ClaimedTask]) -> None:
        claims = [run.claim for run in runs.values()]
        _same("the data of a claimed task", [run.biz_ext for run in runs.values()], [_DATA] * len(runs))
        _same("claims that are held", compare_and_set.held_of(self._alias, claims), set(claims))
        deferred = add(self._alias, self._schedule("1", _FUTURE), IfExists.REPLACE)
        _same("adding a task that runs", deferred.action, AddAction.DEFERRED)
        written = write_progress(self._alias, {claims[0]: Report(0.5, "half")})
        _same("reporting progress", (written.waiting, written.lost), (set(), set()))

    def _end(self, runs: dict[str, ClaimedTask]) -> None:
        now = _PAST + _LEASE

        def end(num: str, outcome: RunOutcome, then: NextState, **fields: Any) -> Settlement:
            return Settlement(runs[self._num(num)].claim, outcome, then, _PAST, now, **fields)

        alone = end("2", RunOutcome.DONE, NextState.GONE, result=json.dumps(_DATA))
        _same("ending a run alone", settle_run(self._alias, runs[self._num("2")], alone), True)
        ends = [
            end("1", RunOutcome.DONE, NextState.GONE),
            end("3", RunOutcome.FAILED, NextState.FAILED, error=_ERROR, exception=Differs(), keep_data=True),
            end("4", RunOutcome.RETRIED, NextState.RETRY, error=_ERROR, after=_LEASE),
            end("once", RunOutcome.DONE, NextState.GONE, result=json.dumps(_DATA), once=True),
        ]
        became = {ends[0].claim: NextState.AGAIN} | {one.claim: one.then for one in ends[1:]}
        _same("ending runs", settle(self._alias, ends).became, became)
        _same("ending them again", settle(self._alias, ends).became, {})
        self._look_at_ends(now)
        _same("adding what was done", self._add_once(), AddAction.FILTERED)
        _same("cancelling a task", cancel(self._alias, CODE, self._num("4")), CancelResult.CANCELLED)
        waiting = _tasks(self._alias).filter(biz_num=self._num("5"))
        _same("cancelling those that are found", CANCEL.to_each(waiting).total(), 1)
        _same("what cancellations leave", _tasks(self._alias).filter(queue=self._queue).count(), 2)

    def _look_at_ends(self, now: datetime) -> None:
        found = _tasks(self._alias).filter(queue=self._queue)
        rows = _sorted(found.values_list("biz_num", "status", "attempts", "last_error"))
        expected = [
            (self._num("1"), TaskStatus.PENDING, 0, ""),
            (self._num("3"), TaskStatus.FAILED, 1, _ERROR),
            (self._num("4"), TaskStatus.PENDING, 1, _ERROR),
            (self._num("5"), TaskStatus.PENDING, 0, ""),
        ]
        _same("what is left", rows, expected)
        runs: Any = TaskRun.objects.using(self._alias).filter(executor=self._executor, biz_code=CODE)
        history = _sorted(runs.values_list("biz_num", "outcome", "finished", "result", "error"))
        outcomes = {"1": RunOutcome.DONE, "2": RunOutcome.DONE, "3": RunOutcome.FAILED, "4": RunOutcome.RETRIED}
        outcomes["once"] = RunOutcome.DONE
        _same(
            "the history",
            history,
            [
                (self._num(num), outcome, now, _DATA if num in ("2", "once") else None, _ERROR if num in "34" else "")
                for num, outcome in outcomes.items()
            ],
        )


def _is_gone(host: str, pid: int) -> bool:
    """Every executor of this name is: a rehearsal is never seen by another session."""
    return True

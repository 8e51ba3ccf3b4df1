"""The tally: the ends of runs, counted in this process for metrics, and until housekeeping adds them to the rollup.

It costs about half a microsecond for each run and no statement. A process that is killed loses the counts of its last
few seconds, and nothing else: the history does not depend on them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.rollup import Cell, Key, merged
from django_delayed_tasks.store.settling.reap import ReapedTask
from django_delayed_tasks.store.settling.settle import path_of
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.transactions import is_unwritable
from django_delayed_tasks.support.forks import forget_in_child
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

MAX_ERRORS: Final = 50
"""The most errors of one code that are told apart between two flushes; reasons may differ in each run."""
OTHER_ERRORS: Final = "…"
_FAILURES: Final = (RunOutcome.RETRIED, RunOutcome.FAILED, RunOutcome.LOST, RunOutcome.EXPIRED)
_DIGITS: Final = re.compile(r"\d+")
_DONE: Final = int(RunOutcome.DONE)

Counts = dict[Key, Cell]
AnyKey = TypeVar("AnyKey", bound=tuple[str | int, ...])


class Totals(NamedTuple):
    """All that was counted since the process began.

    Attributes:
        ends: by code and outcome.
        failed: by code, the tasks that failed for good.
        reaped: by code, the tasks that were taken from dead executors.
    """

    ends: dict[tuple[str, int], Cell]
    failed: Counter[str]
    reaped: Counter[str]


@dataclass(slots=True)
class _Ends:
    """Runs that ended in one way and were settled together: their number, how late they started, how long they took."""

    runs: int = 0
    late: list[timedelta] = field(default_factory=list)
    took: list[timedelta] = field(default_factory=list)

    def add(self, task: ClaimedTask, settlement: Settlement) -> None:
        started, finished = settlement.started, settlement.finished
        if started and task.attempts <= 1:
            self.late.append(started - (settlement.stood_for or task.when))
        if started and finished:
            self.took.append(finished - started)
        self.runs += 1


class Tally:
    """The counts of one database; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counts = {}  # since the last flush
        self._unwritten: Counts = {}  # of earlier flushes that failed
        self._flushed = Totals({}, Counter(), Counter())  # without what is in _counts

    def count(
        self,
        settlements: Sequence[Settlement],
        became: Mapping[Claim, NextState],
        task_of: Callable[[Claim], ClaimedTask | None],
    ) -> None:
        """Count the ends that were committed; releases, and claims that were gone, are no ends of runs."""
        found: dict[Key, _Ends] = {}
        with self._lock:
            for settlement in settlements:
                claim = settlement.claim
                then = became.get(claim)
                if then is None or then is NextState.RELEASED or (task := task_of(claim)) is None:
                    continue
                try:
                    key = self._key(task.biz_code, settlement, then)
                    if (ends := found.get(key)) is None:
                        ends = found[key] = _Ends()
                        self._counts.setdefault(key, Cell())
                    ends.add(task, settlement)
                    if key[1] != _DONE and is_final_failure(settlement.outcome, then):
                        self._flushed.failed[task.biz_code] += 1
                except Exception:  # a handler may have changed its task in any way
                    logger.exception("the end of task %s cannot be counted", claim)
            for key, ends in found.items():
                self._counts[key].count(ends.runs, ends.late, ends.took)

    def count_lost(self, taken: Iterable[ReapedTask]) -> None:
        """Count runs that the deaths of their executors have cut short."""
        with self._lock:
            for one in taken:
                outcome = _counted_as(one.settlement.outcome, one.then)
                key = (one.biz_code, int(outcome), error_of(one.settlement))
                self._counts.setdefault(key, Cell()).count(1, (), ())
                self._flushed.reaped[one.biz_code] += 1
                self._flushed.failed[one.biz_code] += is_final_failure(one.settlement.outcome, one.then)

    def _key(self, biz_code: str, settlement: Settlement, then: NextState) -> Key:
        if settlement.outcome is RunOutcome.DONE:
            return (biz_code, _DONE, "")
        outcome = _counted_as(settlement.outcome, then)
        if then is NextState.GONE and settlement.then is not NextState.GONE:
            outcome = RunOutcome.CANCELLED
        if outcome not in _FAILURES:
            return (biz_code, int(outcome), "")
        key = (biz_code, int(outcome), error_of(settlement))
        known = {**self._counts, **self._unwritten} if key not in self._counts else self._counts
        if key not in known and sum(one[0] == biz_code for one in known) >= MAX_ERRORS:
            return (biz_code, int(outcome), OTHER_ERRORS)
        return key

    def totals(self) -> Totals:
        """Return a copy of all that was counted since the process began."""
        with self._lock:
            ends = dict(self._flushed.ends)
            _add_to(ends, _by_outcome(self._counts))
            return Totals(ends, self._flushed.failed.copy(), self._flushed.reaped.copy())

    def flush(self, alias: str, now: datetime) -> None:
        """Add the counts to the rollup; if that fails, they are kept for the next time."""
        counts = self._take()
        if not counts:
            return
        try:
            rollup.add(alias, counts, now)
        except Exception as error:
            if is_unwritable(error):
                logger.exception("statistics cannot be written (runs: %d)", sum(cell.runs for cell in counts.values()))
                return
            with self._lock:
                _add_to(self._unwritten, counts.items())
            raise

    def _take(self) -> Counts:
        """Return the counts to write, and forget them; the totals keep them."""
        with self._lock:
            counts, self._counts, unwritten, self._unwritten = self._counts, {}, self._unwritten, {}
            _add_to(self._flushed.ends, _by_outcome(counts))
        _add_to(unwritten, counts.items())
        return unwritten


def _counted_as(outcome: RunOutcome, became: NextState | None) -> RunOutcome:
    """Return the outcome that a run counts for: one that was lost and is not run again has failed for good."""
    return RunOutcome.FAILED if outcome is RunOutcome.LOST and is_final_failure(outcome, became) else outcome


def _by_outcome(counts: Counts) -> Iterable[tuple[tuple[str, int], Cell]]:
    return (((code, outcome), cell) for (code, outcome, _), cell in counts.items())


def _add_to(counts: dict[AnyKey, Cell], more: Iterable[tuple[AnyKey, Cell]]) -> None:
    """Add counts to others, in cells of their own: no cell that was there before is changed."""
    for key, cell in more:
        counts[key] = merged(counts.get(key) or Cell(), cell)


def error_of(settlement: Settlement) -> str:
    """Return the text that failures are grouped by: the class of the exception, or the reason without numbers."""
    if settlement.exception is not None:
        return rollup.shortened_error(path_of(type(settlement.exception)))
    return rollup.shortened_error(_DIGITS.sub("#", settlement.error))


_tallies: dict[str, Tally] = {}
forget = _tallies.clear
"""Forget all that this process has counted."""
forget_in_child(forget)


def tally_of(alias: str) -> Tally:
    """Return the tally of this process for a database; its executors share it."""
    with suppress(KeyError):
        return _tallies[alias]
    return _tallies.setdefault(alias, Tally())


def totals() -> Totals:
    """Return all that this process has counted, whatever the database."""
    found = Totals({}, Counter(), Counter())
    for tally in list(_tallies.values()):
        one = tally.totals()
        _add_to(found.ends, one.ends.items())
        found.failed.update(one.failed)
        found.reaped.update(one.reaped)
    return found

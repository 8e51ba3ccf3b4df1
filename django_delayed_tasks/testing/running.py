"""``run_due_tasks`` and ``run_until``: tasks run in the caller's thread, as an executor would run them."""

from collections import Counter
from datetime import datetime, timedelta
from threading import local
from typing import Final

from django_delayed_tasks.api import database
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.membership.recurrences import declaration_of
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.handlers.functions import Code, code_named
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import declare
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.validation import valid_offset
from django_delayed_tasks.testing.clocks import destination, under_way
from django_delayed_tasks.testing.executing.by_hand import ByHand, by_hand
from django_delayed_tasks.testing.runs import Ran, Runs

MAX_RUNS: Final = 1000
"""Runs of one call after which it is taken for endless."""


class _Here(local):
    """Whether this thread is running tasks now."""

    is_running = False


_here = _Here()


def run_due_tasks(*, max_runs: int = MAX_RUNS, using: str | None = None) -> Runs:
    """Run what is due now, in this thread, connection and transaction, until nothing is due; return what ran.

    The order is that of an executor with one thread. Tasks that the runs add, and retries, run too if they are due.
    Tasks that wait for a limit are left.

    Raises:
        TaskException: a transaction is open that is not a TestCase's; or there were more than ``max_runs`` runs.
    """
    runs: list[Ran] = []
    with by_hand(database(using)) as executor:
        _run_due(executor, runs, max_runs)
        return Runs(runs, "" if runs else executor.waiting())


def run_until(until: datetime | timedelta, *, max_runs: int = MAX_RUNS, using: str | None = None) -> Runs:
    """Run what becomes due until a moment, each at its time; return what ran.

    The clock is moved to each moment at which a task becomes due, and at last to the end; a timedelta counts from now.
    Within a ``travel`` block the clock stays there; otherwise it returns to the present.

    Raises:
        ValueError: the moment is past.
        TaskException: as for :func:`run_due_tasks`; or time-machine is not installed.
    """
    runs: list[Ran] = []
    with under_way() as journey:
        end = journey.now + valid_offset(until, "until") if isinstance(until, timedelta) else destination(until, None)
        if end < journey.now:
            raise ValueError(f"{end} is past: it is {journey.now}")
        with by_hand(database(using)) as executor:
            _run_due(executor, runs, max_runs)
            while (moment := executor.next_due(end)) is not None:
                journey.move(moment)
                executor.begin()
                _run_due(executor, runs, max_runs)
            journey.move(end)
            return Runs(runs, "" if runs else executor.waiting())


def _run_due(executor: ByHand, runs: list[Ran], max_runs: int) -> None:
    if _here.is_running:
        raise TaskException("tasks cannot be run by hand within a run")
    _here.is_running = True
    try:
        while (ended := executor.turn()) is not None:
            runs += ended
            if len(runs) > max_runs:
                raise TaskException(f"there is no end of due tasks after {max_runs} runs: {_counted(runs)}")
    finally:
        _here.is_running = False


def _counted(runs: list[Ran]) -> str:
    counts = Counter(one.biz_code for one in runs)
    return ", ".join(f"{count} of {code}" for code, count in counts.most_common(5))


def declare_recurring(*codes: Code, using: str | None = None) -> None:
    """Add the tasks of handlers that have a trigger, as an executor does at its start; of these codes, or of all.

    Raises:
        ValueError: there is no handler with a trigger for one of the codes.
    """
    recurring = {code: handler for code, handler in get_task_handlers().items() if handler.recurs_by}
    chosen = [code_named(code) for code in codes] or list(recurring)
    if unknown := [code for code in chosen if code not in recurring]:
        raise ValueError(
            f"no handler with a trigger for {', '.join(unknown)} (known: {', '.join(recurring) or 'none'})"
        )
    declare.declare(database(using), [declaration_of(code, recurring[code]) for code in chosen])


def run_inline(alias: str) -> None:
    """Run what is due now, unless this thread is doing so: the runs in progress are followed by what they add.

    However many are due now, all of them run. What they add is taken for endless after ``MAX_RUNS`` runs.
    """
    if not _here.is_running:
        due = Task.objects.using(alias).filter(status=TaskStatus.PENDING, claim_at__lte=read_now(alias)).count()
        run_due_tasks(max_runs=due + MAX_RUNS, using=alias)

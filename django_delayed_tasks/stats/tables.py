"""The tables of the overview: the admin's page, a terminal and one with colors draw the same cells."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats.backlogs import QueueBacklog, RunningTask
from django_delayed_tasks.stats.findings import MAX_OF_A_KIND, busy_text, served_text
from django_delayed_tasks.stats.overviews import LiveExecutor, Overview
from django_delayed_tasks.stats.resources import Pool
from django_delayed_tasks.stats.runs import Durations, Failures, Runs
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.support.durations import duration_text, milliseconds_text, number_text
from django_delayed_tasks.support.durations import seconds_text as with_unit
from django_delayed_tasks.support.spans import local

MAX_ROWS: Final = 12
"""The most rows of the tables of failures and codes."""
EMPTY: Final = "–"

Address = Callable[..., str]


class Cell(NamedTuple):
    """A cell: a text, the address of the page that it leads to, a state and a note on it, the parts of a drawing.

    ``kind``: "alarm" if it is a reason to look, or the kind of the state.
    """

    text: str
    address: str = ""
    kind: str = ""
    state: str = ""
    note: str = ""
    parts: Sequence[Any] = ()

    @property
    def line(self) -> str:
        """All of its texts on one line."""
        return " ".join(filter(None, [self.text, self.state, self.note]))


class Column(NamedTuple):
    """A column: its label, what a page makes of it ("" for a plain text), and the cell of a row, or the cell's text."""

    label: str
    kind: str
    cell_of: Callable[[Any], Cell | str]


class Table(NamedTuple):
    """A table with a title; ``empty`` says what it means that it has no rows, ``more`` how many it leaves out."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    empty: str
    more: int = 0

    def cells(self) -> list[list[tuple[Column, Cell]]]:
        """Return the cells of each row, with their columns."""
        found = ([(column, column.cell_of(row)) for column in self.columns] for row in self.rows)
        return [[(column, Cell(cell) if isinstance(cell, str) else cell) for column, cell in row] for row in found]


def without_addresses(page: str, *arguments: Any, **query: Any) -> str:
    """Return an empty address: a terminal has no links."""
    return ""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of an overview. ``address`` returns the address of a page; with ``has_all_codes`` none is left out."""

    seen: Overview
    address: Address = without_addresses
    has_all_codes: bool = False

    def __iter__(self) -> Iterator[Table]:
        yield from (self.queues(), self.failures(), self.running(), self.executors(), self.codes(), self.pools())

    def queues(self) -> Table:
        """Return the table of queues: late ones, then the others that have tasks, then idle ones."""
        columns = [
            Column(_("queue"), "", self._queue),
            Column(_("served by"), "", _served_by),
            Column(_("late"), "", self._late),
            Column(_("due"), "number", lambda queue: _bounded(queue.due)),
            Column(_("limited"), "number", lambda queue: _bounded(sum(one.tasks for one in queue.limited))),
            Column(_("next"), "", self._next),
            Column(_("running"), "number", lambda queue: number_text(queue.running)),
            Column(_("pending"), "number", lambda queue: _number(queue.pending)),
        ]
        queues = self.seen.backlog.queues
        rows = sorted(queues, key=lambda queue: (-queue.latency * queue.is_late, queue.earliest is None))
        empty = _("No handler names a queue, and no queue has waiting tasks.")
        return Table("queues", _("Queues"), columns, rows, empty)

    def _queue(self, queue: QueueBacklog) -> Cell:
        paused = _("paused since %(since)s") % {"since": self._moment(queue.paused_at)} if queue.paused_at else ""
        return Cell(queue.name, self.address("task", queue=queue.name), "paused", paused)

    def _late(self, queue: QueueBacklog) -> Cell:
        if not queue.is_late:
            return Cell(EMPTY)
        values = {"late": duration_text(queue.latency), "since": self._moment(queue.earliest)}
        return Cell(_("%(late)s, since %(since)s") % values, kind="alarm")

    def _next(self, queue: QueueBacklog) -> str:
        if queue.earliest is None:
            return EMPTY
        wait = queue.earliest - self.seen.now
        return _("in %s") % duration_text(wait) if wait.total_seconds() > 0 else _("due")

    def _moment(self, moment: datetime | None) -> str:
        return moment_text(moment, self.seen.now)

    def failures(self) -> Table:
        """Return the table of what went wrong in the last day, what did so in the last hour first."""
        of_hour = {(one.code, one.error): one for one in self.seen.failures_of_hour}
        of_day = {(one.code, one.error): one for one in self.seen.failures_of_day}
        counts = {key: of_hour[key].count if key in of_hour else 0 for key in (of_hour | of_day)}

        def hour(day: Failures) -> Cell:
            count = counts[day.code, day.error]
            return Cell(number_text(count), kind=_alarm(count > 0 and day.lost < day.count))

        columns = [
            Column(_("code"), "", lambda day: Cell(day.code, self._failed_of(day))),
            Column(_("error"), "error", lambda day: day.error.removeprefix("builtins.") or _("(no error)")),
            Column(_("last hour"), "number", hour),
            Column(_("last day"), "number", lambda day: number_text(max(day.count, counts[day.code, day.error]))),
            Column(_("lost"), "number", lambda day: number_text(day.lost)),
            Column(_("for good"), "number", lambda day: number_text(day.final)),
            Column(_("latest"), "", lambda day: f"{local(of_hour.get((day.code, day.error), day).latest):%H:%M}"),
        ]
        rows = sorted((of_hour | of_day).values(), key=lambda day: (-counts[day.code, day.error], -day.count))
        empty = _("No run has gone wrong in the last day.")
        return Table("failing", _("What goes wrong"), columns, rows[:MAX_ROWS], empty)

    def _failed_of(self, failures: Failures) -> str:
        """Return the address of the tasks that failed for good, or of the runs if all run again."""
        if failures.final:
            return self.address("task", code=failures.code, status__exact=TaskStatus.FAILED.value)
        outcome = RunOutcome.LOST if failures.lost == failures.count else RunOutcome.RETRIED
        return self.address("taskrun", code=failures.code, outcome=outcome.value)

    def running(self) -> Table:
        """Return the table of running tasks, the longest first."""
        columns = [
            Column(_("task"), "wrap", lambda task: Cell(f"{task.code} {task.number}", self.address("task", task.id))),
            Column(pgettext("duration", "for"), "", lambda task: duration_text(task.duration)),
            Column(_("executor"), "", lambda task: task.executor),
            Column(_("progress"), "share", _progress),
        ]
        return Table("running", _("Running the longest"), columns, self.seen.backlog.longest, _("No task is running."))

    def executors(self) -> Table:
        """Return the table of executors."""
        columns = [
            Column(_("name"), "", self._executor),
            Column(_("busy"), "meter", _busy),
            Column(_("queues"), "wrap", lambda one: served_text(one.queues, one.exclude_queues)),
        ]
        executors = self.seen.executors[:50]
        return Table("executors", _("Executors"), columns, executors, _("No executor is alive."))

    def _executor(self, one: LiveExecutor) -> Cell:
        state = _("stopping") if one.is_stopping else ""
        return Cell(one.name, self.address("executor", one.id), "stopping", state, one.host)

    def codes(self) -> Table:
        """Return the table of codes: how many runs, how long they take, how late they start.

        Each has a bar of how long half of its runs and 95 % of them took; all bars have the same scale.
        """
        rates = self.seen.rates if self.has_all_codes else self.seen.rates[:MAX_ROWS]
        scale = max((_seconds(runs.run_time, 95) for runs in rates), default=0.0) or 1.0

        def bar(runs: Runs) -> Cell:
            half, most = _percentile(runs.run_time, 50), _percentile(runs.run_time, 95)
            parts = [f"{100 * _seconds(runs.run_time, percent) / scale:.2f}" for percent in (95, 50)]
            text = _("half took %(half)s, 95 %% took %(most)s at most") % {"half": half, "most": most}
            return Cell("", note=text, parts=parts)

        columns = [
            Column(_("code"), "", lambda runs: Cell(runs.code, self.address("taskrun", code=runs.code))),
            Column(_("runs"), "number", lambda runs: number_text(runs.total)),
            Column(_("failed"), "number", lambda runs: Cell(number_text(runs.failed), kind=_alarm(runs.failed > 0))),
            Column(_("run time"), "bar", bar),
            Column(_("half took"), "number", lambda runs: _percentile(runs.run_time, 50)),
            Column(_("95 % took"), "number", lambda runs: _percentile(runs.run_time, 95)),
            Column(_("longest"), "number", lambda runs: _percentile(runs.run_time, 100)),
            Column(_("95 % late by"), "number", lambda runs: _percentile(runs.lateness, 95)),
        ]
        title = {
            "hour": _("Codes in the last hour"), "day": _("Codes in the last day"), "week": _("Codes in the last week"),
        }[self.seen.span]  # fmt: skip
        more = len(self.seen.rates) - len(rates)
        return Table("codes", title, columns, rates, _("No run has ended in this time."), more)

    def pools(self) -> Table:
        """Return the table of pools and mutexes."""
        columns = [
            Column(_("pool"), "", self._pool),
            Column(_("leased"), "number", lambda pool: _bounded(pool.busy)),
            Column(_("free"), "number", lambda pool: _bounded(pool.free)),
            Column(_("disabled"), "number", lambda pool: _bounded(pool.disabled)),
            Column(_("waiting"), "number", lambda pool: Cell(_bounded(pool.waiters), kind=_alarm(pool.waiters > 0))),
        ]
        empty = _("There are no pools and no mutexes.")
        return Table("pools", _("Pools and mutexes"), columns, self.seen.pools, empty)

    def _pool(self, pool: Pool) -> Cell:
        return Cell(_("mutexes") if pool.is_mutexes else pool.name, self.address("resource", pool=pool.name))


def _alarm(is_alarming: bool) -> str:
    return "alarm" if is_alarming else ""


def _served_by(queue: QueueBacklog) -> Cell:
    names, more = ", ".join(queue.served_by[:MAX_OF_A_KIND]), len(queue.served_by) - MAX_OF_A_KIND
    if more > 0:
        names = _("%(names)s and %(more)d more") % {"names": names, "more": more}
    return Cell(names or _("no executor"), kind=_alarm(not names and queue.earliest is not None))


def _progress(task: RunningTask) -> Cell:
    if task.progress is None:
        return Cell(EMPTY)
    percent = round(100 * task.progress)
    return Cell(f"{percent} %", note=task.note, parts=[percent])


def _busy(one: LiveExecutor) -> Cell:
    return Cell(busy_text(one.claimed, one.threads), parts=(one.threads, min(one.claimed, one.threads)))


def _number(count: int | None) -> str:
    return EMPTY if count is None else number_text(count)


def _bounded(count: int) -> str:
    return f"> {number_text(COUNTED)}" if count > COUNTED else number_text(count)


def _seconds(times: Durations, percent: int) -> float:
    return (times.percentile(percent) or timedelta()).total_seconds()


def _percentile(times: Durations, percent: int) -> str:
    return seconds_text(_seconds(times, percent)) if times.count else EMPTY


def moment_text(moment: datetime | None, now: datetime) -> str:
    """Return a moment in local time, without the date if it is today."""
    if moment is None:
        return EMPTY
    shown = local(moment)
    return f"{shown:%H:%M:%S}" if shown.date() == local(now).date() else f"{shown:%Y-%m-%d %H:%M}"


def seconds_text(seconds: float) -> str:
    """Return a duration in words, short ones in milliseconds."""
    if seconds < 1:
        return milliseconds_text(seconds)
    return with_unit(f"{seconds:.2g}") if seconds < 10 else duration_text(timedelta(seconds=seconds))

"""The figures and tables of the overview, as texts and links."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.admin.overview import pictures
from django_delayed_tasks.admin.overview.pictures import count_text
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats import Failures, Overview, QueueBacklog
from django_delayed_tasks.stats.findings import bounded, busy_text, served_text, tasks_text, threads_text
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.support.durations import duration_text
from django_delayed_tasks.support.spans import local
from django_delayed_tasks.support.visible import named

MAX_ROWS: Final = 12
"""The most rows of a table; what is left out is counted below it."""

MAX_EXECUTORS: Final = 50

Address = Callable[..., str]


class Tile(NamedTuple):
    """One of the figures at the top."""

    label: str
    value: str
    note: str
    kind: str = ""
    address: str = ""


@dataclass
class Tables:
    """What the template shows of an overview; ``address`` returns the address of another page."""

    seen: Overview
    address: Address
    has_all_codes: bool = False

    @cached_property
    def tiles(self) -> list[Tile]:
        """The figures at the top, what is urgent first."""
        return [self._executors(), self._late(), self._failing(), self._failed(), self._running(), self._rate()]

    def _executors(self) -> Tile:
        executors = self.seen.executors
        claimed, threads = sum(one.claimed for one in executors), sum(one.threads for one in executors)
        note = _("%(tasks)s on %(threads)s") % {"tasks": tasks_text(claimed), "threads": threads_text(threads)}
        kind = "good" if executors else "bad"
        label = _("Executors alive")
        return Tile(
            label,
            count_text(len(executors)),
            note if executors else _("nothing is run"),
            kind,
            self.address("executor_changelist"),
        )

    def _late(self) -> Tile:
        waits = self.seen.backlog
        address = self._tasks(due="overdue")
        if not waits.late:
            return Tile(_("Late"), _("none"), self._in_time(), "good", address)
        kind = "bad" if waits.latency.total_seconds() > 60 else "warn"
        since = self._moment(min(queue.earliest for queue in waits.late if queue.earliest))
        note = _("%(tasks)s, since %(time)s") % {"tasks": tasks_text(waits.late_tasks), "time": since}
        return Tile(_("Late"), longest_unit(waits.latency), note, kind, address)

    def _in_time(self) -> str:
        limited = sum(one.tasks for queue in self.seen.backlog.queues for one in queue.limited)
        if not limited:
            return _("every due task was claimed in time")
        return ngettext("%s waits for a limit", "%s wait for a limit", limited) % tasks_text(limited)

    def _failing(self) -> Tile:
        failed, total = self.seen.last_hour.failed, self.seen.last_hour.total
        share = _("%.1f %% of the runs") % (100 * failed / total) if failed else _("of %s runs") % count_text(total)
        address = self._runs(outcome=RunOutcome.FAILED.value) if failed else self._runs()
        return Tile(_("Failed in the last hour"), count_text(failed), share, "bad" if failed else "good", address)

    def _failed(self) -> Tile:
        failed = self.seen.backlog.failed
        waits = ngettext("waits for a decision", "wait for a decision", failed)
        note = waits if failed else _("no task waits for a decision")
        return Tile(
            _("Failed tasks"),
            bounded(failed, count_text),
            note,
            "warn" if failed else "",
            self._tasks(status__exact=TaskStatus.FAILED.value),
        )

    def _running(self) -> Tile:
        longest = self.seen.backlog.longest
        note = _("the longest for %s") % duration_text(longest[0].duration) if longest else ""
        return Tile(
            _("Running"),
            bounded(self.seen.backlog.running, count_text),
            note,
            "",
            self._tasks(status__exact=TaskStatus.RUNNING.value),
        )

    def _rate(self) -> Tile:
        runs = self.seen.last_hour
        per_minute = count_text(round(runs.rate * 60, 1))
        return Tile(
            _("Done in the last hour"),
            count_text(runs.done),
            _("%s runs per minute") % per_minute,
            "",
            self.address("taskrun_changelist"),
        )

    def _moment(self, moment: datetime | None) -> str:
        """Return a moment in local time, without the date if it is today."""
        if moment is None:
            return "–"
        shown, now = local(moment), local(self.seen.now)
        return f"{shown:%H:%M:%S}" if shown.date() == now.date() else f"{shown:%Y-%m-%d %H:%M}"

    def _tasks(self, **query: Any) -> str:
        return _with_query(self.address("task_changelist"), query)

    def _runs(self, **query: Any) -> str:
        return _with_query(self.address("taskrun_changelist"), query)

    @cached_property
    def queues(self) -> list[dict[str, Any]]:
        """The rows of the table of queues: late ones, then the others that have tasks, then idle ones."""
        rows = sorted(
            self.seen.backlog.queues, key=lambda queue: (-queue.latency * queue.is_late, queue.earliest is None)
        )
        return [self._queue(queue) for queue in rows]

    def _queue(self, queue: QueueBacklog) -> dict[str, Any]:
        names = queue.served_by[:3]
        more = len(queue.served_by) - len(names)
        served = ", ".join(names)
        if more > 0:
            served = _("%(names)s and %(more)d more") % {"names": served, "more": more}
        return {
            "name": named(queue.name),
            "address": self._tasks(queue=queue.name),
            "served_by": served and named(served),
            "is_unserved": not queue.served_by and queue.earliest is not None,
            "due": _due(queue.due),
            "limited": _due(sum(one.tasks for one in queue.limited)),
            "late": duration_text(queue.latency) if queue.is_late else "",
            "since": self._moment(queue.earliest) if queue.is_late else "",
            "next": self._next(queue),
            "pending": "–" if queue.pending is None else count_text(queue.pending),
            "running": count_text(queue.running),
            "paused": self._moment(queue.paused_at) if queue.paused_at else "",
        }

    def _next(self, queue: QueueBacklog) -> str:
        if queue.earliest is None:
            return "–"
        wait = queue.earliest - self.seen.now
        return _("in %s") % duration_text(wait) if wait.total_seconds() > 0 else _("due")

    @cached_property
    def failures(self) -> list[dict[str, Any]]:
        """The rows of the table of what went wrong in the last day, with how many of them in the last hour."""
        of_hour = {(one.code, one.error): one.count for one in self.seen.failures_of_hour}
        known = {(one.code, one.error) for one in self.seen.failures_of_day}
        rows = [
            *self.seen.failures_of_day,
            *(one for one in self.seen.failures_of_hour if (one.code, one.error) not in known),
        ]
        counts = [(of_hour.get((one.code, one.error), 0), one) for one in rows]
        counts.sort(key=lambda count: (-count[0], -count[1].count))
        return [self._failure(one, hour) for hour, one in counts[:MAX_ROWS]]

    def _failure(self, failures: Failures, hour: int) -> dict[str, Any]:
        return {
            "code": named(failures.code),
            "error": named(failures.error.removeprefix("builtins.") or _("(no error)")),
            "hour": count_text(hour), "day": count_text(max(failures.count, hour)), "lost": count_text(failures.lost),
            "final": count_text(failures.final), "address": self._failed_of(failures),
            "is_alarm": hour > 0 and failures.lost < failures.count,
        }  # fmt: skip

    def _failed_of(self, failures: Failures) -> str:
        """Return the address of the tasks that failed for good, or of the runs if all run again."""
        if failures.final:
            return self._tasks(code=failures.code, status__exact=TaskStatus.FAILED.value)
        outcome = RunOutcome.LOST if failures.lost == failures.count else RunOutcome.RETRIED
        return self._runs(code=failures.code, outcome=outcome.value)

    @cached_property
    def longest(self) -> list[dict[str, Any]]:
        """The rows of the table of running tasks, the longest first."""
        return [
            {
                "code": task.code, "number": task.number, "address": self.address("task_change", task.id),
                "duration": duration_text(task.duration), "executor": named(task.executor),
                "percent": None if task.progress is None else round(100 * task.progress), "note": task.note,
            }
            for task in self.seen.backlog.longest
        ]  # fmt: skip

    @cached_property
    def codes(self) -> list[dict[str, Any]]:
        """The rows of the table of codes: the first of them, or all."""
        rows = pictures.run_times(self.seen.rates if self.has_all_codes else self.seen.rates[:MAX_ROWS])
        return [{**row, "address": self._runs(code=row["code"])} for row in rows]

    @cached_property
    def executors(self) -> list[dict[str, Any]]:
        """The rows of the table of executors."""
        return [
            {
                "name": named(one.name), "address": self.address("executor_change", one.id), "host": named(one.host),
                "is_stopping": one.is_stopping, "threads": one.threads, "shown": min(one.claimed, one.threads),
                "busy": busy_text(one.claimed, one.threads),
                "queues": named(served_text(one.queues, one.exclude_queues)),
            }
            for one in self.seen.executors[:MAX_EXECUTORS]
        ]  # fmt: skip

    @cached_property
    def pools(self) -> list[dict[str, Any]]:
        """The rows of the table of pools."""
        resources = self.address("resource_changelist")
        return [
            pool.as_json()
            | {name: _due(getattr(pool, name)) for name in ("busy", "free", "disabled", "waiters")}
            | {
                "has_waiters": pool.waiters > 0,
                "name": _("mutexes") if pool.is_mutexes else named(pool.name),
                "address": resources and f"{resources}?{urlencode({'pool': pool.name})}",
            }
            for pool in self.seen.pools
        ]  # fmt: skip

    @property
    def more_codes(self) -> int:
        """How many codes the table leaves out."""
        return 0 if self.has_all_codes else max(0, len(self.seen.rates) - MAX_ROWS)

    @property
    def peak(self) -> str:
        """The sentence about the busiest minute of the next day; empty if no minute is busy."""
        peak = self.seen.forecast.peak
        if peak is None:
            return ""
        values = {"tasks": count_text(peak.tasks), "time": f"{timezone.localtime(peak.start):%H:%M}"}
        if peak.held:
            text = ngettext(
                "%(tasks)s tasks become due at %(time)s, but the queue %(queues)s is paused or has no executor.",
                "%(tasks)s tasks become due at %(time)s, but the queues %(queues)s are paused or have no executor.",
                len(peak.held),
            )
            return text % {**values, "queues": ", ".join(peak.held)}
        if peak.last_start is None:
            return _("%(tasks)s tasks become due at %(time)s.") % values
        rate = count_text(round(peak.rate, 1))
        last = f"{timezone.localtime(peak.last_start):%H:%M:%S}"
        text = _(
            "%(tasks)s tasks become due at %(time)s; at %(rate)s runs per second, the highest rate of their codes in "
            "the last day, the last one starts at %(last)s."
        )
        return text % (values | {"rate": rate, "last": last})

    @property
    def known(self) -> str:
        """Where the forecast is from."""
        forecast = self.seen.forecast
        if forecast.exact_until is None:
            return _("Every pending task was read just now; times of recurring tasks are computed from their triggers.")
        if forecast.surveyed_at is None:
            return _("Only the next tasks are known: the executors have not surveyed all tasks yet.")
        ago = duration_text(self.seen.now - forecast.surveyed_at)
        text = _("Exact until %(time)s; after that from the survey of all tasks that was finished %(ago)s ago.")
        return text % {"time": self._moment(forecast.exact_until), "ago": ago}

    @property
    def pending(self) -> str:
        """How many tasks are pending, in words."""
        count = self.seen.backlog.pending
        return ngettext("%s task is pending", "%s tasks are pending", count) % bounded(count, count_text)


def _with_query(address: str, query: dict[str, Any]) -> str:
    return f"{address}?{urlencode(query)}" if address and query else address


def _due(count: int) -> str:
    return f"> {count_text(COUNTED)}" if count > COUNTED else count_text(count)


def longest_unit(duration: timedelta) -> str:
    """Return a duration in its longest unit: "13 min"."""
    return " ".join(duration_text(duration).split()[:2])

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
from django_delayed_tasks.admin.overview.pictures import count_text, seconds_text
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats import Failures, Overview, QueueBacklog
from django_delayed_tasks.stats.findings import busy_text, served_text, tasks_text
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.support.durations import duration_text
from django_delayed_tasks.support.visible import named

MOST_ROWS: Final = 12
"""The most rows of a table; what is left out is counted below it."""

MOST_EXECUTORS: Final = 50

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
            return Tile(_("Late"), _("none"), _("every due task was claimed in time"), "good", address)
        kind = "bad" if waits.latency.total_seconds() > 60 else "warn"
        since = self._moment(min(queue.earliest for queue in waits.late if queue.earliest))
        note = _("%(tasks)s, since %(time)s") % {"tasks": tasks_text(waits.late_tasks), "time": since}
        return Tile(_("Late"), longest_unit(waits.latency), note, kind, address)

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
            count_text(failed),
            note,
            "warn" if failed else "",
            self._tasks(status__exact=TaskStatus.FAILED.value),
        )

    def _running(self) -> Tile:
        longest = self.seen.backlog.longest
        note = _("the longest for %s") % duration_text(longest[0].duration) if longest else ""
        return Tile(
            _("Running"),
            count_text(self.seen.backlog.running),
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
        local, now = timezone.localtime(moment), timezone.localtime(self.seen.now)
        return f"{local:%H:%M:%S}" if local.date() == now.date() else f"{local:%Y-%m-%d %H:%M}"

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
            "due": f"> {count_text(COUNTED)}" if queue.due > COUNTED else count_text(queue.due),
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
        """The rows of the table of failures of the last day, with how many of them there were in the last hour."""
        of_hour = {(one.code, one.error): one.count for one in self.seen.failures_of_hour}
        known = {(one.code, one.error) for one in self.seen.failures_of_day}
        rows = [
            *self.seen.failures_of_day,
            *(one for one in self.seen.failures_of_hour if (one.code, one.error) not in known),
        ]
        found = [self._failure(one, of_hour.get((one.code, one.error), 0)) for one in rows]
        return sorted(found, key=lambda row: (-row["hour"], -row["day"]))[:MOST_ROWS]

    def _failure(self, failures: Failures, hour: int) -> dict[str, Any]:
        return {
            "code": named(failures.code), "error": named(failures.error or _("(no error)")), "hour": hour,
            "day": max(failures.count, hour), "final": failures.final, "address": self._failed_of(failures),
        }  # fmt: skip

    def _failed_of(self, failures: Failures) -> str:
        """Return the address of the tasks that failed for good, or of the runs that failed if all were retried."""
        if failures.final:
            return self._tasks(code=failures.code, status__exact=TaskStatus.FAILED.value)
        return self._runs(code=failures.code, outcome=RunOutcome.RETRIED.value)

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
        """The rows of the table of codes."""
        return pictures.run_times(self.seen.rates[:MOST_ROWS])

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
            for one in self.seen.executors[:MOST_EXECUTORS]
        ]  # fmt: skip

    @cached_property
    def pools(self) -> list[dict[str, Any]]:
        """The rows of the table of pools."""
        resources = self.address("resource_changelist")
        return [
            pool.as_json() | {
                "name": _("mutexes") if pool.is_mutexes else named(pool.name),
                "address": resources and f"{resources}?{urlencode({'pool': pool.name})}",
            }
            for pool in self.seen.pools
        ]  # fmt: skip

    @property
    def more_codes(self) -> int:
        """How many codes the table leaves out."""
        return max(0, len(self.seen.rates) - MOST_ROWS)

    @property
    def peak(self) -> str:
        """The sentence about the busiest minute of the next day; empty if no minute is busy."""
        peak = self.seen.forecast.peak
        if peak is None:
            return ""
        values = {"tasks": count_text(peak.tasks), "time": f"{timezone.localtime(peak.start):%H:%M}"}
        if peak.last_start is None:
            return _("%(tasks)s tasks become due at %(time)s.") % values
        rate = count_text(round(peak.rate, 1))
        last = f"{timezone.localtime(peak.last_start):%H:%M:%S}"
        text = _(
            "%(tasks)s tasks become due at %(time)s; at %(rate)s runs per second, the highest rate of the last day, "
            "the last one starts at %(last)s."
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
        return ngettext("%s task is pending", "%s tasks are pending", count) % count_text(count)

    @property
    def latest(self) -> str:
        """How late 95 % of the first attempts of the last hour started."""
        late = self.seen.last_hour.lateness.percentile(95)
        return seconds_text(late.total_seconds()) if late is not None else "–"


def _with_query(address: str, query: dict[str, Any]) -> str:
    return f"{address}?{urlencode(query)}" if address and query else address


def threads_text(count: int) -> str:
    """Return a number of threads in words."""
    return ngettext("%d thread", "%d threads", count) % count


def longest_unit(duration: timedelta) -> str:
    """Return a duration in its longest unit: "13 min"."""
    return " ".join(duration_text(duration).split()[:2])

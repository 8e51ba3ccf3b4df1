"""The figures at the top of the overview, and its sentences about what comes next."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.admin.overview.pictures import count_text
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats import Overview
from django_delayed_tasks.stats.findings import bounded, tasks_text, threads_text
from django_delayed_tasks.stats.tables import Address, moment_text
from django_delayed_tasks.support.durations import duration_text


class Tile(NamedTuple):
    """One of the figures at the top, the address of the page that it leads to, and whether it is good or bad."""

    label: str
    value: str
    note: str
    address: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The figures at the top, what is urgent first; ``address`` returns the address of another page."""

    seen: Overview
    address: Address

    def __iter__(self) -> Iterator[Tile]:
        yield self._executors()
        yield self._late()
        yield self._failing()
        yield self._failed()
        yield self._running()
        yield self._rate()

    def _executors(self) -> Tile:
        executors, address = self.seen.executors, self.address("executor")
        if not executors:
            return Tile(_("Executors alive"), count_text(0), _("nothing is run"), address, "bad")
        claimed, threads = sum(one.claimed for one in executors), sum(one.threads for one in executors)
        note = _("%(tasks)s on %(threads)s") % {"tasks": tasks_text(claimed), "threads": threads_text(threads)}
        return Tile(_("Executors alive"), count_text(len(executors)), note, address, "good")

    def _late(self) -> Tile:
        waits, address = self.seen.backlog, self.address("task", due="overdue")
        if not waits.late:
            return Tile(_("Late"), _("none"), self._in_time(), address, "good")
        kind = "bad" if waits.latency.total_seconds() > 60 else "warn"
        since = moment_text(min(queue.earliest for queue in waits.late if queue.earliest), self.seen.now)
        note = _("%(tasks)s, since %(time)s") % {"tasks": tasks_text(waits.late_tasks), "time": since}
        in_longest_unit = " ".join(duration_text(waits.latency).split()[:2])
        return Tile(_("Late"), in_longest_unit, note, address, kind)

    def _in_time(self) -> str:
        queues = self.seen.backlog.queues
        if limited := sum(one.tasks for queue in queues for one in queue.limited):
            return ngettext("%s waits for a limit", "%s wait for a limit", limited) % tasks_text(limited)
        if held_back := sum(queue.held_back.tasks for queue in queues if queue.held_back):
            return ngettext("%s is held back", "%s are held back", held_back) % tasks_text(held_back)
        return _("every due task was claimed in time")

    def _failing(self) -> Tile:
        failed, total = self.seen.last_hour.failed, self.seen.last_hour.total
        label = _("Failed in the last hour")
        if not failed:
            return Tile(label, count_text(0), _("of %s runs") % count_text(total), self.address("taskrun"), "good")
        address = self.address("taskrun", outcome=RunOutcome.FAILED.value)
        return Tile(label, count_text(failed), _("%.1f %% of the runs") % (100 * failed / total), address, "bad")

    def _failed(self) -> Tile:
        failed, address = self.seen.backlog.failed, self.address("task", status__exact=TaskStatus.FAILED.value)
        waits = ngettext("waits for a decision", "wait for a decision", failed)
        note = waits if failed else _("no task waits for a decision")
        return Tile(_("Failed tasks"), bounded(failed, count_text), note, address, "warn" if failed else "")

    def _running(self) -> Tile:
        waits, address = self.seen.backlog, self.address("task", status__exact=TaskStatus.RUNNING.value)
        note = _("the longest for %s") % duration_text(waits.longest[0].duration) if waits.longest else ""
        return Tile(_("Running"), bounded(waits.running, count_text), note, address)

    def _rate(self) -> Tile:
        runs = self.seen.last_hour
        note = _("%s runs per minute") % count_text(round(runs.rate * 60, 1))
        return Tile(_("Done in the last hour"), count_text(runs.done), note, self.address("taskrun"))


def peak_text(seen: Overview) -> str:
    """Return the sentence about the busiest minute of the next day; empty if no minute is busy."""
    peak = seen.forecast.peak
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


def known_text(seen: Overview) -> str:
    """Return where the forecast is from."""
    forecast = seen.forecast
    if forecast.exact_until is None:
        return _("Every pending task was read just now; times of recurring tasks are computed from their triggers.")
    if forecast.surveyed_at is None:
        return _("Only the next tasks are known: the executors have not surveyed all tasks yet.")
    ago = duration_text(seen.now - forecast.surveyed_at)
    text = _("Exact until %(time)s; after that from the survey of all tasks that was finished %(ago)s ago.")
    return text % {"time": moment_text(forecast.exact_until, seen.now), "ago": ago}


def pending_text(seen: Overview) -> str:
    """Return how many tasks are pending, in words."""
    count = seen.backlog.pending
    return ngettext("%s task is pending", "%s tasks are pending", count) % bounded(count, count_text)

"""The overview as plain text: tables of words and numbers for a terminal or a log."""

from collections.abc import Iterator, Sequence
from typing import Final

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_delayed_tasks.management.shared import aligned
from django_delayed_tasks.stats import Bar, Overview
from django_delayed_tasks.stats.findings import bounded, busy_text, served_text, tasks_text
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.support.durations import duration_text
from django_delayed_tasks.support.visible import visible

MAX_ROWS = 10
"""The most rows of each table."""
BLOCKS = " ▁▂▃▄▅▆▇█"

LEVELS: Final = {"error": gettext_lazy("ERROR:"), "warning": gettext_lazy("WARNING:"), "info": gettext_lazy("INFO:")}

Table = tuple[str, Sequence[str], list[Sequence[str]]]
"""A title, the names of the columns, and the rows."""


def plain(seen: Overview) -> str:
    """Return everything as text without colors."""
    parts = [summary(seen), *(visible(f"{LEVELS[one.level]} {one.text} {one.advice}") for one in seen.problems)]
    parts += [f"{line} {text}".lstrip() if line.isspace() else f"{line} {text}" for line, text in forecasts(seen)]
    parts += [_aligned(table) for table in tables(seen) if table[2]]
    return "\n".join(parts)


def summary(seen: Overview) -> str:
    """Return the figures that matter first, on one line."""
    waits, alive = seen.backlog, len(seen.executors)
    values = {
        "moment": f"{timezone.localtime(seen.now):%Y-%m-%d %H:%M:%S %Z}", "alive": alive, "late": _late(seen),
        "running": _number(waits.running), "pending": _number(waits.pending), "failed": _number(waits.failed),
        "done_last": f"{seen.last_hour.done:,}", "failed_last": f"{seen.last_hour.failed:,}",
    }  # fmt: skip
    text = ngettext(
        "%(moment)s: %(alive)d executor alive, %(late)s, %(running)s running, %(pending)s pending, %(failed)s failed;"
        " in the last hour %(done_last)s done, %(failed_last)s failed",
        "%(moment)s: %(alive)d executors alive, %(late)s, %(running)s running, %(pending)s pending, %(failed)s failed;"
        " in the last hour %(done_last)s done, %(failed_last)s failed",
        alive,
    )
    return text % values


def _number(count: float) -> str:
    return bounded(count, "{:,}".format)


def _late(seen: Overview) -> str:
    waits = seen.backlog
    if not waits.late:
        return _("nothing late")
    return _("late by %(time)s (%(tasks)s)") % {
        "time": duration_text(waits.latency),
        "tasks": tasks_text(waits.late_tasks),
    }


def forecasts(seen: Overview) -> Iterator[tuple[str, str]]:
    """Yield a small picture of each period of the forecast, with its number of runs in words."""
    hour, day, month = (sum(bar.total for bar in bars) for bars in _ahead(seen))
    texts = (
        ngettext("%s run due in the next hour", "%s runs due in the next hour", hour) % f"{hour:,}",
        ngettext("%s run due in the next day", "%s runs due in the next day", day) % f"{day:,}",
        ngettext("%s run due in the next 30 days", "%s runs due in the next 30 days", month) % f"{month:,}",
    )
    yield from zip(map(sparkline, _ahead(seen)), texts, strict=True)


def _ahead(seen: Overview) -> tuple[Sequence[Bar], ...]:
    return seen.forecast.hour, seen.forecast.day, seen.forecast.month


def sparkline(bars: Sequence[Bar]) -> str:
    """Return a line of characters whose heights are the numbers of tasks."""
    top = max((bar.total for bar in bars), default=0)
    return "".join(BLOCKS[0 if not bar.total else 1 + bar.total * 7 // top] for bar in bars)


def tables(seen: Overview) -> list[Table]:
    """Return the tables: queues, failures, running tasks, executors, codes, pools."""
    return [_queues(seen), _failures(seen), _running(seen), _executors(seen), _codes(seen), _pools(seen)]


def _queues(seen: Overview) -> Table:
    rows = [
        (
            queue.name, ", ".join(queue.served_by) or _("no executor"),
            _("paused") if queue.paused_at else duration_text(queue.latency) if queue.is_late else "-",
            _due(queue.due), _due(sum(one.tasks for one in queue.limited)), f"{queue.running:,}",
            "-" if queue.pending is None else f"{queue.pending:,}",
        )
        for queue in sorted(seen.backlog.queues, key=lambda queue: -queue.latency)[:MAX_ROWS]
    ]  # fmt: skip
    head = (_("queue"), _("served by"), _("late"), _("due"), _("limited"), _("running"), _("pending"))
    return _("Queues"), head, list(rows)


def _due(count: int) -> str:
    return f"> {COUNTED:,}" if count > COUNTED else f"{count:,}"


def _failures(seen: Overview) -> Table:
    rows = [
        (
            one.code,
            one.error or "-",
            f"{one.count:,}",
            f"{one.lost:,}",
            f"{one.final:,}",
            f"{timezone.localtime(one.latest):%H:%M}",
        )
        for one in seen.failures_of_hour[:MAX_ROWS]
    ]
    head = (_("code"), _("error"), _("runs"), _("lost"), _("for good"), _("latest"))
    return _("Went wrong in the last hour"), head, list(rows)


def _running(seen: Overview) -> Table:
    rows = [
        (
            task.code, task.number, duration_text(task.duration), task.executor,
            "-" if task.progress is None else f"{task.progress:.0%} {task.note}".strip(),
        )
        for task in seen.backlog.longest
    ]  # fmt: skip
    head = (_("code"), _("number"), pgettext("duration", "for"), _("executor"), _("progress"))
    return _("Running the longest"), head, list(rows)


def _executors(seen: Overview) -> Table:
    rows = [
        (
            one.name, one.host, busy_text(one.claimed, one.threads),
            served_text(one.queues, one.exclude_queues),
            _("stopping") if one.is_stopping else pgettext("executor", "running"),
        )
        for one in seen.executors[:MAX_ROWS]
    ]  # fmt: skip
    head = (_("name"), _("host"), _("busy"), _("queues"), _("state"))
    return _("Executors"), head, list(rows)


def _codes(seen: Overview) -> Table:
    rows = []
    for runs in seen.rates[:MAX_ROWS]:
        late, took = runs.lateness.percentile(95), runs.run_time.percentile(95)
        times = [duration_text(value) if value is not None else "-" for value in (took, late)]
        rows.append((runs.code, f"{runs.total:,}", f"{runs.failed:,}", *times))
    title = {
        "hour": _("Codes in the last hour"), "day": _("Codes in the last day"), "week": _("Codes in the last week"),
    }[seen.span]  # fmt: skip
    return title, (_("code"), _("runs"), _("failed"), _("95 % took"), _("95 % late by")), list(rows)


def _pools(seen: Overview) -> Table:
    rows = [
        (
            _("mutexes") if pool.is_mutexes else pool.name,
            *map(_due, (pool.busy, pool.free, pool.disabled, pool.waiters)),
        )
        for pool in seen.pools[:MAX_ROWS]
    ]
    head = (_("pool"), _("leased"), _("free"), _("disabled"), _("waiting"))
    return _("Pools and mutexes"), head, list(rows)


def _aligned(table: Table) -> str:
    title, head, rows = table
    return "\n".join([f"\n{title}", *aligned([head, *rows])])

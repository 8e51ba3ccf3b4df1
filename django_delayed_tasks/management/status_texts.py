"""The overview as plain text: tables of words and numbers for a terminal or a log."""

from collections.abc import Iterator, Sequence
from typing import Final

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_delayed_tasks.management.shared import aligned
from django_delayed_tasks.stats import Bar, Overview
from django_delayed_tasks.stats.findings import bounded, tasks_text
from django_delayed_tasks.stats.tables import Cell, Table, Tables
from django_delayed_tasks.support.durations import MAX_LISTED, duration_text

BLOCKS = " ▁▂▃▄▅▆▇█"

LEVELS: Final = {"error": gettext_lazy("ERROR:"), "warning": gettext_lazy("WARNING:"), "info": gettext_lazy("INFO:")}


def plain(seen: Overview) -> str:
    """Return everything as text without colors."""
    parts = [summary(seen), *(f"{LEVELS[one.level]} {one.text} {one.advice}" for one in seen.problems)]
    parts += [f"{line} {text}".lstrip() if line.isspace() else f"{line} {text}" for line, text in forecasts(seen)]
    parts += [_drawn(table) for table in Tables(seen) if table.rows]
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


def _drawn(table: Table) -> str:
    lines = [[cell.line for cell in row] for row in cells(table)]
    return "\n".join([f"\n{table.title}", *aligned([labels(table), *lines])])


def labels(table: Table) -> list[str]:
    """Return the labels of the columns that a terminal shows."""
    return [column.label for column in table.columns if column.kind != "bar"]


def cells(table: Table) -> list[list[Cell]]:
    """Return the cells of the first rows, without those that only a page can draw."""
    rows = table._replace(rows=table.rows[:MAX_LISTED]).cells()
    return [[cell for column, cell in row if column.kind != "bar"] for row in rows]

"""The overview as plain text: tables of words and numbers for a terminal or a log."""

from collections.abc import Iterator, Sequence

from django.utils import timezone

from django_delayed_tasks.stats import Bar, Overview
from django_delayed_tasks.stats.findings import tasks_text
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.support.durations import duration_text
from django_delayed_tasks.support.plural import plural

MOST_ROWS = 10
"""The most rows of each table."""
BLOCKS = " ▁▂▃▄▅▆▇█"

Table = tuple[str, Sequence[str], list[Sequence[str]]]
"""A title, the names of the columns, and the rows."""


def plain(seen: Overview) -> str:
    """Return everything as text without colors."""
    parts = [summary(seen), *(f"{problem.level.upper()}: {problem.text} {problem.advice}" for problem in seen.problems)]
    parts += [f"{line} {text}" for line, text in forecasts(seen)]
    parts += [_aligned(table) for table in tables(seen) if table[2]]
    return "\n".join(parts)


def summary(seen: Overview) -> str:
    """Return the figures that matter first, on one line."""
    waits, alive = seen.backlog, len(seen.executors)
    late = f"late by {duration_text(waits.latency)} ({tasks_text(waits.late_tasks)})" if waits.late else "nothing late"
    return (
        f"{timezone.localtime(seen.now):%Y-%m-%d %H:%M:%S %Z}: {alive} {plural(alive, 'executor')} alive, {late},"
        f" {waits.running:,} running, {waits.pending:,} pending, {waits.failed:,} failed;"
        f" in the last hour {seen.last_hour.done:,} done, {seen.last_hour.failed:,} failed"
    )


def forecasts(seen: Overview) -> Iterator[tuple[str, str]]:
    """Yield a small picture of each period of the forecast, with its number of tasks in words."""
    for name, bars in (("hour", seen.forecast.hour), ("day", seen.forecast.day), ("30 days", seen.forecast.month)):
        total = sum(bar.total for bar in bars)
        yield sparkline(bars), f"{total:,} {plural(total, 'task')} due in the next {name}"


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
            queue.name, ", ".join(queue.served_by) or "no executor",
            "paused" if queue.paused_at else duration_text(queue.latency) if queue.is_late else "-",
            f"> {COUNTED}" if queue.due > COUNTED else str(queue.due), str(queue.running),
            "-" if queue.pending is None else f"{queue.pending:,}",
        )
        for queue in sorted(seen.backlog.queues, key=lambda queue: -queue.latency)[:MOST_ROWS]
    ]  # fmt: skip
    return "Queues", ("queue", "served by", "late", "due", "running", "pending"), list(rows)


def _failures(seen: Overview) -> Table:
    rows = [
        (one.code, one.error or "-", str(one.count), str(one.final), f"{timezone.localtime(one.latest):%H:%M}")
        for one in seen.failures_of_hour[:MOST_ROWS]
    ]
    return "Failed in the last hour", ("code", "error", "runs", "for good", "latest"), list(rows)


def _running(seen: Overview) -> Table:
    rows = [
        (
            task.code, task.number, duration_text(task.duration), task.executor,
            "-" if task.progress is None else f"{task.progress:.0%} {task.note}".strip(),
        )
        for task in seen.backlog.longest
    ]  # fmt: skip
    return "Running the longest", ("code", "number", "for", "executor", "progress"), list(rows)


def _executors(seen: Overview) -> Table:
    rows = [
        (
            one.name, one.host, f"{one.claimed} of {one.threads}",
            "all" if one.queues is None else ", ".join(one.queues), "stopping" if one.is_stopping else "running",
        )
        for one in seen.executors[:MOST_ROWS]
    ]  # fmt: skip
    return "Executors", ("name", "host", "busy", "queues", "state"), list(rows)


def _codes(seen: Overview) -> Table:
    rows = []
    for runs in seen.rates[:MOST_ROWS]:
        late, took = runs.lateness.percentile(95), runs.run_time.percentile(95)
        times = [duration_text(value) if value is not None else "-" for value in (took, late)]
        rows.append((runs.code, f"{runs.total:,}", str(runs.failed), *times))
    return f"Codes in the last {seen.span}", ("code", "runs", "failed", "95 % took", "95 % late by"), list(rows)


def _pools(seen: Overview) -> Table:
    rows = [
        (pool.name, str(pool.busy), str(pool.free), str(pool.disabled), str(pool.waiters))
        for pool in seen.pools[:MOST_ROWS]
    ]
    return "Pools and mutexes", ("pool", "leased", "free", "disabled", "waiting"), list(rows)


def _aligned(table: Table) -> str:
    title, head, rows = table
    lines = [head, *rows]
    widths = [max(len(line[number]) for line in lines) for number in range(len(head))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"\n{title}", *texts])

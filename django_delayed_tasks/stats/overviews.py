"""Everything that the overview shows, read in one snapshot: the page, its JSON and ``taskstatus`` show the same."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus
from django_delayed_tasks.stats.backlogs import Backlog, backlog_of
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.findings import Problem, host_text, problems_of
from django_delayed_tasks.stats.forecasts import Forecast, forecast_of
from django_delayed_tasks.stats.resources import Pool, pools_of
from django_delayed_tasks.stats.runs import Failures, Runs, failures_of, rates_of, series_of
from django_delayed_tasks.stats.snapshot import take_snapshot

SPANS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
"""The spans of time for which the history of runs is told."""
Span = Literal["hour", "day", "week"]


@dataclass(frozen=True, slots=True)
class LiveExecutor(Figures):
    """An executor that is alive, with the number of tasks that it has claimed."""

    id: int
    name: str
    host: str
    pid: int
    threads: int
    claimed: int
    queues: list[str] | None
    exclude_queues: list[str]
    is_stopping: bool
    heartbeat_age: timedelta


@dataclass(frozen=True)
class Overview(Figures):
    """The state of tasks and executors at ``now``; ``series`` and ``rates`` are of the last ``span``."""

    now: datetime
    span: str
    problems: list[Problem]
    executors: list[LiveExecutor]
    backlog: Backlog
    forecast: Forecast
    last_hour: Runs
    series: list[Runs]
    rates: list[Runs]
    failures_of_hour: list[Failures]
    failures_of_day: list[Failures]
    pools: list[Pool]


def overview(span: Span = "hour", *, using: str | None = None) -> Overview:
    """Return everything that the overview shows; ``span`` is the time that the figures about runs cover."""
    seen = take_snapshot(using)
    last = SPANS[span]
    waits = backlog_of(seen)
    rates = rates_of(seen, last)
    of_hour = rates if span == "hour" else rates_of(seen, SPANS["hour"])
    return Overview(
        now=seen.now,
        span=span,
        problems=problems_of(seen, waits.queues),
        executors=_executors(seen.alive, waits, seen.now),
        backlog=waits,
        forecast=forecast_of(seen),
        last_hour=_together(of_hour, seen.now),
        series=series_of(seen, last),
        rates=rates,
        failures_of_hour=failures_of(seen, SPANS["hour"]),
        failures_of_day=failures_of(seen, SPANS["day"]),
        pools=pools_of(seen),
    )


def _executors(alive: list[Executor], waits: Backlog, now: datetime) -> list[LiveExecutor]:
    claimed = Counter(waits.claimed)
    return [
        LiveExecutor(
            one.pk, one.name, host_text(one.host), one.pid, one.threads, claimed[one.pk], one.queues,
            one.exclude_queues or [], one.status == ExecutorStatus.STOPPING, max(timedelta(), now - one.heartbeat_at),
        )
        for one in alive
    ]  # fmt: skip


def _together(rates: list[Runs], now: datetime) -> Runs:
    """Return the runs of all codes as one."""
    first = rates[0] if rates else Runs("", now, 3600.0, {})
    total = Runs("", first.start, first.seconds, {})
    for runs in rates:
        total = total.plus(runs)
    return total

"""Statistics: how many runs ended and how, how late they started, what waits, what comes next, what is wrong.

Nothing here counts the rows of a big table: runs are summed up by the executors as they end, tasks are surveyed by one
of them, and what is read live is read through an index up to a bound (docs/decisions/0023).
"""

from django_delayed_tasks.stats.backlogs import Backlog, QueueBacklog, backlog
from django_delayed_tasks.stats.findings import Problem, problems
from django_delayed_tasks.stats.forecasts import Bar, Forecast, Peak, forecast
from django_delayed_tasks.stats.limits import Limited
from django_delayed_tasks.stats.overviews import Overview, overview
from django_delayed_tasks.stats.runs import Durations, Failures, Runs, failures, rates, series
from django_delayed_tasks.stats.suspects import HeldBack, Suspect

__all__ = [
    "Backlog",
    "Bar",
    "Durations",
    "Failures",
    "Forecast",
    "HeldBack",
    "Limited",
    "Overview",
    "Peak",
    "Problem",
    "QueueBacklog",
    "Runs",
    "Suspect",
    "backlog",
    "failures",
    "forecast",
    "overview",
    "problems",
    "rates",
    "series",
]

"""The pictures of the overview: the forecast, throughput and failures, lateness."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from django_delayed_tasks.admin.lists.columns import number_text
from django_delayed_tasks.admin.overview import charts
from django_delayed_tasks.admin.overview.charts import Bar, Key, Picture
from django_delayed_tasks.stats import Forecast, Overview
from django_delayed_tasks.stats.runs import Durations
from django_delayed_tasks.stats.tables import seconds_text

MAX_CODES: Final = 6
"""The most codes that have a color of their own."""
PERIODS: Final = ("hour", "day", "month")


@dataclass(frozen=True, slots=True)
class Ahead:
    """The forecast of one period: its picture and the number of runs."""

    name: str
    picture: Picture
    total: int


def forecast(seen: Forecast, ahead: str) -> Ahead:
    """Return the picture of what becomes due in the next hour, day or month."""
    bars = {"hour": seen.hour, "day": seen.day, "month": seen.month}[ahead]
    totals: Counter[str] = Counter()
    for bar in bars:
        totals.update(bar.codes)
    codes = [code for code, count in totals.most_common() if code and count][:MAX_CODES]
    legend = [Key(f"ddt-c{number}", code, count_text(totals[code])) for number, code in enumerate(codes)]
    others = totals.total() - sum(totals[code] for code in codes)
    if others:
        legend.append(Key("ddt-others", _("others"), count_text(others)))
    drawn = []
    for bar in bars:
        values = [bar.codes.get(code, 0) for code in codes]
        all_values = [*values, bar.total - sum(values)] if others else values
        drawn.append(bar_of(bar.start, ahead, all_values))
    label = {
        "hour": _("Runs that become due in the next hour, by minute"),
        "day": _("Runs that become due in the next day, by hour"),
        "month": _("Runs that become due in the next 30 days, by day"),
    }[ahead]
    return Ahead(ahead, charts.bars(label, drawn, legend, count_text, _("Time")), totals.total())


def throughput(seen: Overview) -> Picture:
    """Return the picture of the runs that ended, by period: done, tried again, lost, failed."""
    legend = [
        Key("ddt-good", _("done"), count_text(sum(runs.done for runs in seen.series))),
        Key("ddt-again", _("retried"), count_text(sum(runs.retried for runs in seen.series))),
        Key("ddt-others", _("lost"), count_text(sum(runs.lost for runs in seen.series))),
        Key("ddt-bad", _("failed"), count_text(sum(runs.failed for runs in seen.series))),
    ]
    drawn = [bar_of(runs.start, seen.span, [runs.done, runs.retried, runs.lost, runs.failed]) for runs in seen.series]
    return charts.bars(_("Runs that ended"), drawn, legend, count_text, _("Time"))


def lateness(seen: Overview) -> Picture:
    """Return the picture of how late first attempts started: the median, and what 95 of 100 do not exceed."""
    legend = [Key("ddt-c0", _("half of the runs")), Key("ddt-c1", _("%d %% of the runs") % 95)]
    drawn = [bar_of(runs.start, seen.span, _percentiles(runs.lateness)) for runs in seen.series]
    return charts.lines(_("How late runs started"), drawn, legend, seconds_text, _("Time"))


def _percentiles(late: Durations) -> list[float]:
    found = [late.percentile(percent) for percent in (50, 95)]
    return [0.0 if value is None else max(value.total_seconds(), 0.001) for value in found]


def bar_of(start: datetime, span: str, values: Sequence[float]) -> Bar:
    """Return a bar; those at round times have a label below them."""
    local, name = timezone.localtime(start), name_of(start, span)
    tick = {
        "hour": name if local.minute % 10 == 0 else "",
        "day": f"{local:%H:%M}" if local.hour % 4 == 0 else "",
        "week": str(date_format(local, "D")) if local.hour == 12 else "",
        "month": name if local.day in (1, 5, 10, 15, 20, 25) else "",
    }[span]
    return Bar(name, values, tick)


def name_of(start: datetime, span: str) -> str:
    """Return the name of a period as pictures show it: its local time, with the weekday if needed; or its date.

    A picture of a day begins and ends at the same time of day, so without the weekday two periods could look alike.
    """
    local = timezone.localtime(start)
    if span == "month":
        return str(date_format(local, "j M"))
    return f"{local:%H:%M}" if span == "hour" else f"{date_format(local, 'D')} {local:%H:%M}"


def count_text(count: float) -> str:
    """Return a count with separators between thousands."""
    return number_text(int(count) if count == int(count) else round(count, 1))

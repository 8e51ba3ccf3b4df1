"""The forecast: how many tasks are due when, by code, with the future times of recurring tasks.

The next thousand tasks are read live. What comes after them, if anything, is known from the latest survey.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils import timezone

from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.reasons import closed
from django_delayed_tasks.stats.snapshot import Snapshot, take_snapshot
from django_delayed_tasks.store.records.survey import LATER, Recurring, minute_of, moment_of, project

MINUTES, HOURS, DAYS = 60, 24, 30
"""The bars of the forecast: the next hour by minutes, the next day by hours, the next month by days."""
LIVE_STEPS: Final = 2000
"""Times of recurring tasks that are computed for a page."""
MIN_OF_A_PEAK: Final = 100
"""Tasks of a minute that are worth a warning: fewer are run within it."""

Due = dict[str, Counter[int]]
"""When tasks are due, in minutes since 1970, by code."""


@dataclass(frozen=True, slots=True)
class Bar(Figures):
    """The tasks that become due in one minute, hour or day, which begins at ``start``, by code."""

    start: datetime
    codes: dict[str, int]

    @property
    def total(self) -> int:
        """The number of tasks."""
        return sum(self.codes.values())


@dataclass(frozen=True, slots=True)
class Peak(Figures):
    """The minute of the next day in which most tasks become due, and when the last of them starts.

    ``last_start`` assumes ``rate``, in runs per second: that of these tasks' codes, one after the other, each in the
    minute of the last day in which most of it ran. It is None if one of them has not run, or if ``held`` names queues
    of these tasks: those that are paused, or that no executor serves.
    """

    start: datetime
    tasks: int
    rate: float
    last_start: datetime | None
    held: list[str]


@dataclass(frozen=True)
class Forecast(Figures):
    """The tasks that become due in the next hour by minute, in the next day by hour, and in the next 30 days by day.

    The first bar and the last one are parts of a minute, an hour or a day: all bars together are the whole time.

    ``exact_until``: tasks that are due before this moment were read live; None if all were. ``surveyed_at``: when the
    survey was finished that the rest is known from; None if there was none, so that the rest is missing.
    """

    left_out = ("now",)

    now: datetime
    hour: list[Bar]
    day: list[Bar]
    month: list[Bar]
    exact_until: datetime | None
    surveyed_at: datetime | None
    peak: Peak | None


def forecast(*, using: str | None = None) -> Forecast:
    """Return when tasks become due, by code; tasks that are due already are not in it."""
    return forecast_of(take_snapshot(using))


def forecast_of(seen: Snapshot) -> Forecast:
    """Like :func:`forecast`, from a snapshot."""
    due = _due(seen)
    local = timezone.localtime(seen.now)
    today = local.replace(hour=0, minute=0, second=0, microsecond=0)
    hour, minute = local.replace(minute=0, second=0, microsecond=0), local.replace(second=0, microsecond=0)
    days = [_midnight(today, number) for number in range(DAYS + 1)]
    minutes = _steps(minute, timedelta(minutes=1), MINUTES + 1)
    hours = _steps(hour, timedelta(hours=1), HOURS + 1)
    return Forecast(
        seen.now,
        _bars(due, minutes, seen.now + timedelta(hours=1)),
        _bars(due, hours, seen.now + timedelta(days=1)),
        _bars(due, days, local + timedelta(days=DAYS)),
        seen.next.until,
        seen.survey.taken_at,
        _peak(due, seen),
    )


def _steps(start: datetime, step: timedelta, count: int) -> list[datetime]:
    """Return the local times from the start on: a day on which clocks are set back has an hour twice."""
    return [timezone.localtime(start.astimezone(UTC) + number * step) for number in range(count)]


def _midnight(today: datetime, days: int) -> datetime:
    date = (today + timedelta(days=days, hours=12)).date()
    return timezone.make_aware(datetime(date.year, date.month, date.day))  # noqa: DTZ001 (made aware)


def _due(seen: Snapshot) -> Due:
    """Return when tasks are due from now on, by code."""
    fine = seen.survey.data.get("fine", LATER)
    border = None if seen.next.until is None else _rounded(minute_of(seen.next.until), fine)
    due: Due = defaultdict(Counter)
    for task in seen.next.tasks:
        minute = minute_of(task.claim_at) if border is None else _rounded(minute_of(task.claim_at), fine)
        if task.trigger_text is None and (border is None or minute <= border):
            due[task.biz_code][minute] += 1
    if border is not None:
        _continue(due, _stored(seen, "due"), border)
    _add_recurring(due, seen)
    return due


def _rounded(minute: int, fine: int) -> int:
    """Return the minute as the survey tells it: from the minute ``fine`` on, it tells hours only."""
    return minute - minute % 60 if 0 < fine <= minute else minute


def _continue(due: Due, surveyed: Due, border: int) -> None:
    """Add what the survey knows after the last minute that was read live; of this one only a part was read."""
    for code, times in surveyed.items():
        due[code][border] = max(due[code][border], times[border])
    _add(due, surveyed, lambda minute: minute > border)


def _add_recurring(due: Due, seen: Snapshot) -> None:
    """Add the times of recurring tasks that the survey knows, and of those that were added since."""
    known = _stored(seen, "recurring")
    now = minute_of(seen.now)
    # Under "" it has the codes for which it had no room: which these are is not known.
    new = [] if "" in known else [one for one in _recurring(seen) if one.biz_code not in known]
    _add(due, {**project(new, seen.now, LIVE_STEPS), **known}, lambda minute: minute > now)


def _recurring(seen: Snapshot) -> list[Recurring]:
    groups: dict[tuple[str, str], Recurring] = {}
    for task in seen.next.tasks:
        if task.trigger_text:
            key = task.biz_code, task.trigger_text
            known = groups.get(key, Recurring(*key, task.claim_at, 0))
            groups[key] = known._replace(tasks=known.tasks + 1)
    return list(groups.values())


def _stored(seen: Snapshot, what: str) -> Due:
    found = seen.survey.data.get(what, {})
    return {
        code: Counter({minute: count for minute, count in times if minute != LATER}) for code, times in found.items()
    }


def _add(due: Due, more: Mapping[str, Counter[int]], condition: Callable[[int], bool]) -> None:
    for code, times in more.items():
        for minute, count in times.items():
            if condition(minute):
                due[code][minute] += count


def _bars(due: Due, starts: list[datetime], end: datetime) -> list[Bar]:
    """Return a bar for each start before the end; a minute that has begun then belongs to the last bar."""
    starts = [start for start in starts if start < end]
    edges = [*(minute_of(start) for start in starts), minute_of(end - timedelta.resolution) + 1]
    bars: list[dict[str, int]] = [{} for _ in starts]
    for code, times in due.items():
        for minute, count in times.items():
            number = bisect_right(edges, minute) - 1
            if 0 <= number < len(bars) and count:
                bars[number][code] = bars[number].get(code, 0) + count
    return [Bar(start, bar) for start, bar in zip(starts, bars, strict=False)]


def _peak(due: Due, seen: Snapshot) -> Peak | None:
    end = minute_of(seen.now + timedelta(days=1))
    totals: Counter[int] = Counter()
    for times in due.values():
        totals.update({minute: count for minute, count in times.items() if minute < end})
    if not totals:
        return None
    minute, tasks = max(totals.items(), key=lambda item: (item[1], -item[0]))
    if tasks < MIN_OF_A_PEAK:
        return None
    codes = {code: times[minute] for code, times in due.items() if times[minute]}
    start, rate, held = moment_of(minute), _rate_of(codes, seen), _held(codes, minute, seen)
    is_told = rate and not held
    return Peak(start, tasks, rate, start + timedelta(seconds=tasks / rate) if is_told else None, held)


def _rate_of(codes: Mapping[str, int], seen: Snapshot) -> float:
    """Return the runs per second if these tasks run one code after the other; 0 if that of a code is not known."""
    most: Mapping[str, int] = seen.survey.data.get("busiest_minutes", {})
    if not all(most.get(code) for code in codes):
        return 0.0
    return sum(codes.values()) / sum(60 * tasks / most[code] for code, tasks in codes.items())


def _held(codes: Iterable[str], minute: int, seen: Snapshot) -> list[str]:
    """Return the queues of tasks of these codes, due in this minute, in which nothing runs now."""
    known = {code: set(queues) for code, queues in seen.survey.data.get("queues_of", {}).items()}
    read: defaultdict[str, set[str]] = defaultdict(set)
    for task in seen.next.tasks:
        known.setdefault(task.biz_code, set()).add(task.queue)
        if minute_of(task.claim_at) == minute:
            read[task.biz_code].add(task.queue)
    is_read = seen.next.until is None or minute_of(seen.next.until) > minute
    queues = set[str]().union(*((is_read and read[code]) or known.get(code, set()) for code in codes))
    return sorted(queue for queue in queues if closed(seen, queue))

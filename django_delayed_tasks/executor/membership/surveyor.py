"""The surveyor: one of the executors reads all tasks, in portions at a bounded rate, for forecasts and counts."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.records import rollup, survey
from django_delayed_tasks.store.records.survey import Survey, project
from django_delayed_tasks.store.schedules.recurrence import read_now

PORTION: Final = 2500
"""Tasks of one portion. Housekeeping reads at most five portions a second."""
MAX_CODES: Final = 40
"""The most codes that are told apart; the others are summed up under an empty code."""
OTHERS: Final = ""
MAX_LATENCIES: Final = 5
"""The number of earlier readings of each queue's lateness that are kept."""


class Surveyor:
    """Surveys the tasks of a database; :meth:`step` reads one portion."""

    def __init__(self, alias: str, peers: Peers, portion: int = PORTION) -> None:
        self._alias = alias
        self._peers = peers
        self._portion = portion
        self._survey: Survey | None = None

    def step(self) -> bool:
        """Read one portion if this is the executor that surveys; return whether more portions follow."""
        if not self._peers.is_first:
            self._survey = None
            return False
        if self._survey is None:
            self._survey = Survey(read_now(self._alias))
        if read_into(self._survey, self._alias, self._portion):
            return True
        publish(self._survey, self._alias)
        self._survey = None
        return False


def read_into(current: Survey, alias: str, size: int) -> bool:
    """Add the next portion; return whether more portions follow."""
    portion = survey.read_portion(alias, current.began, current.position, size)
    current.add(portion)
    current.position = portion.last or current.position
    return portion.last is not None


def publish(current: Survey, alias: str) -> None:
    """Store what a finished survey has shown."""
    now = read_now(alias)
    busiest = Counter(rollup.busiest_minutes(alias, now - timedelta(days=1)))
    seconds = (now - current.began).total_seconds()
    more = {"seconds": seconds, "late": _latencies(alias)}
    survey.write(alias, now, report(current, busiest) | more)


def _latencies(alias: str) -> list[Any]:
    """Return how late each queue was in the last minutes and is now, in seconds: from this it is seen what grows.

    Tasks of limited codes, which may wait for their limits, are told apart: their lane follows the queue's name.
    """
    before = survey.read(alias)
    known = before.data.get("late", []) if before and isinstance(before.data, dict) else []
    agenda = waiting.read_agenda(alias)
    late: dict[str, float] = {}
    for level in agenda.levels:
        seconds = (agenda.now - level.earliest).total_seconds()
        if seconds > 1:
            name = f"{level.queue}{level.lane}"
            late[name] = max(round(seconds, 1), late.get(name, 0.0))
    return [*known[-MAX_LATENCIES:], (agenda.now.timestamp(), late)]


def take_survey(alias: str) -> None:
    """Survey all tasks at once."""
    current = Survey(read_now(alias))
    while read_into(current, alias, PORTION):
        pass
    publish(current, alias)


def report(current: Survey, busiest: Counter[str]) -> dict[str, Any]:
    """Return the result of a survey, as it is stored: counts by status, code and queue, and by due time."""
    recurring = project(list(current.recurring.values()), current.began)
    sizes = Counter({code: times.total() for code, times in current.due.items()})
    sizes.update({code: times.total() for code, times in recurring.items()})
    kept = {code for code, _ in sizes.most_common(MAX_CODES)}
    return {
        "tasks": current.tasks,
        "statuses": {str(status): dict(codes.most_common(1000)) for status, codes in current.statuses.items()},
        "totals": {str(status): codes.total() for status, codes in current.statuses.items()},
        "queues": dict(current.queues.most_common(1000)),
        "queues_of": _queues_of(current, kept),
        "due": _by_code(current.due, kept),
        "recurring": _by_code(recurring, kept),
        "fine": survey.minute_of(current.began + survey.BY_MINUTE),
        "busiest_minutes": dict(busiest.most_common(1000)),
    }


def _queues_of(current: Survey, kept: set[str]) -> dict[str, list[str]]:
    """Return the queues that the tasks of each code wait in, as :func:`_by_code` returns their times."""
    found: dict[str, set[str]] = {}
    for code, queues in current.queues_of.items():
        found.setdefault(code if code in kept else OTHERS, set()).update(queues)
    return {code: sorted(queues)[:1000] for code, queues in found.items()}


def _by_code(due: Mapping[str, Counter[int]], kept: set[str]) -> dict[str, list[tuple[int, int]]]:
    found = {code: times for code, times in due.items() if code in kept}
    if others := [times for code, times in due.items() if code not in kept]:
        found[OTHERS] = survey.summed(others)
    return {code: sorted(times.items()) for code, times in found.items()}

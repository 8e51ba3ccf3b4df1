"""How long it took until work continued: read from the ledger and the tally at the end."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import NamedTuple

from django_delayed_tasks.states import RunOutcome
from harness.torture.codes import KILLERS
from harness.torture.facts import Facts
from harness.torture.tally import Tally


@dataclass(frozen=True)
class Recovery:
    """The seconds from ``what`` until work continued."""

    seconds: float
    what: str


def recoveries(facts: Facts, tally: Tally) -> list[Recovery]:
    """Return the recoveries, the longest first."""
    found = [*_of_dead_executors(facts, tally), *_of_faults(facts, tally)]
    return sorted(found, key=lambda one: -one.seconds)


def _of_dead_executors(facts: Facts, tally: Tally) -> Iterator[Recovery]:
    """Yield the times from an executor's death until a task that it had claimed ran, with no other death in between."""
    for gap in _gaps(facts, tally):
        if not gap.more_deaths:
            yield Recovery(gap.seconds, "an executor's death until its task ran again")


def longest_row_of_deaths(facts: Facts, tally: Tally) -> tuple[float, int]:
    """The longest time that a task took to run again because its next executors died as well: (seconds, how many)."""
    rows = ((gap.seconds, gap.more_deaths + 1) for gap in _gaps(facts, tally) if gap.more_deaths)
    return max(rows, default=(0.0, 0))


class _Gap(NamedTuple):
    """The time from a death until the task ran again, and how many executors that had claimed it died in between."""

    seconds: float
    more_deaths: int


def _gaps(facts: Facts, tally: Tally) -> Iterator[_Gap]:
    seen: defaultdict[int, list[tuple[int, datetime]]] = defaultdict(list)
    lost: defaultdict[int, list[int]] = defaultdict(list)
    for one in facts.ledger.seen:
        seen[one.task_id].append((one.version, one.at))
    runs = [run for run in facts.ledger.runs if run.outcome == RunOutcome.LOST]
    for run in runs:
        lost[run.task_id].append(run.version)
    for run in runs:
        died = _death_before(tally, facts.ledger.processes.get(run.executor or 0), run.finished)
        again = min(((version, at) for version, at in seen[run.task_id] if version > run.version), default=None)
        if died and again:
            more = sum(run.version < version < again[0] for version in lost[run.task_id])
            yield _Gap((again[1] - died).total_seconds(), more)


def takeovers(facts: Facts, tally: Tally) -> list[float]:
    """Seconds from an executor's death until what it had claimed was taken from it, the longest first."""
    lost = [run for run in facts.ledger.runs if run.outcome == RunOutcome.LOST]
    deaths = [_death_before(tally, facts.ledger.processes.get(run.executor or 0), run.finished) for run in lost]
    pairs = zip(lost, deaths, strict=True)
    return sorted(((run.finished - died).total_seconds() for run, died in pairs if died), reverse=True)


def claimed_again(
    facts: Facts, tally: Tally, claims: Mapping[int, Sequence[tuple[int, datetime]]]
) -> dict[str, list[float]]:
    """Return the seconds from an executor's death until a task that it had claimed was claimed again, sorted.

    They are apart for tasks that ended the process themselves and for those that did nothing wrong. ``claims`` has the
    version and the moment of each claim of a task, in their order.
    """
    found: dict[str, list[float]] = {"innocent": [], "killing": []}
    for run in facts.ledger.runs:
        died = _death_before(tally, facts.ledger.processes.get(run.executor or 0), run.finished)
        again = next((moment for version, moment in claims.get(run.task_id, ()) if version > run.version), None)
        if run.outcome == RunOutcome.LOST and died and again:
            found["killing" if run.code in KILLERS else "innocent"].append((again - died).total_seconds())
    return {whose: sorted(seconds) for whose, seconds in found.items()}


def distribution(seconds: Sequence[float]) -> dict[str, float]:
    """Return how many there are, the median, the 99th percentile, and the longest."""
    if not seconds:
        return {"count": 0}
    ranks = {"p50": 0.5, "p99": 0.99, "longest": 1.0}
    return {"count": len(seconds)} | {
        name: round(seconds[ceil(rank * len(seconds)) - 1], 3) for name, rank in ranks.items()
    }


def _death_before(tally: Tally, process: int | None, moment: datetime) -> datetime | None:
    return max((at for pid, at in tally.deaths if pid == process and at <= moment), default=None)


def _of_faults(facts: Facts, tally: Tally) -> Iterator[Recovery]:
    """Yield the times from the end of a fault until the first run of a task that was due by then."""
    runs = sorted((run.started, run.when) for run in facts.ledger.runs if run.started)
    for injection in tally.injections:
        for started, when in runs[bisect_right(runs, (injection.over, injection.over)) :]:
            if when <= injection.over:
                yield Recovery((started - injection.over).total_seconds(), f"{injection.kind}, until the next due run")
                break

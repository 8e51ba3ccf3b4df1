"""What an agenda and a claim cost, in time and in rows: ``claims ROUNDS``. Each claims a batch that was just added."""

import json
import statistics
import sys
import time
from datetime import timedelta
from typing import Any

import django
from django.db import connection

from harness.benchmarks.counts import Counts, counted

ALIAS, EXECUTOR, BATCH = "default", 1, 100
WARM, COUNTED = 5, 5
"""Rounds that are not measured, and those whose rows are counted and not their time."""


def add_due(start: int) -> None:
    """A batch that is due."""
    from django_delayed_tasks.states import IfExists
    from django_delayed_tasks.store.schedules.add_many import add_many
    from django_delayed_tasks.store.validation import Schedule

    schedules = [
        Schedule("nothing", f"due {number}", timedelta(seconds=-1), None, "default", 0)
        for number in range(start, start + BATCH)
    ]
    add_many(ALIAS, schedules, IfExists.REPLACE, BATCH)


class Executor:
    """What an executor does of the poll, without its threads and without what it remembers."""

    def __init__(self) -> None:
        from django_delayed_tasks.store.claiming.strategies import strategy_for

        self.strategy = strategy_for(ALIAS, "auto")
        self.level: Any = None

    def look(self) -> None:
        """Read the whole agenda."""
        from django_delayed_tasks.store.claiming.agenda import read_agenda

        [self.level] = read_agenda(ALIAS).due()

    def claim(self) -> list[Any]:
        """A batch of the level that is due."""
        from django_delayed_tasks.store.claiming.request import ClaimRequest, watermark

        request = ClaimRequest(
            EXECUTOR, self.level.queue, self.level.priority, BATCH, watermark=watermark(self.level.earliest)
        )
        claimed = self.strategy(ALIAS, request)
        if len(claimed) != BATCH:
            raise RuntimeError(f"claimed {len(claimed)} of {BATCH}")
        return claimed


def settle(claimed: list[Any]) -> None:
    """Settle these tasks as done."""
    from django_delayed_tasks.states import NextState, RunOutcome
    from django_delayed_tasks.store.settling.settle import settle as settle_all
    from django_delayed_tasks.store.settling.settlement import Settlement

    settle_all(ALIAS, [Settlement(task.claim, RunOutcome.DONE, NextState.GONE) for task in claimed])


def timed(rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each agenda and each claim."""
    executor, looks, claims = Executor(), [], []
    for number in range(rounds):
        add_due(number * BATCH)
        times = [time.perf_counter()]
        executor.look()
        times.append(time.perf_counter())
        claimed = executor.claim()
        times.append(time.perf_counter())
        settle(claimed)
        looks.append(1000 * (times[1] - times[0]))
        claims.append(1000 * (times[2] - times[1]))
    return looks[WARM:], claims[WARM:]


def counted_rounds() -> tuple[list[Counts], list[Counts]]:
    """The cost of each agenda and each claim."""
    executor, looks, claims = Executor(), [], []
    for number in range(COUNTED):
        add_due(number * BATCH)
        with counted(connection) as of_look:
            executor.look()
        with counted(connection) as of_claim:
            claimed = executor.claim()
        settle(claimed)
        looks.append(of_look)
        claims.append(of_claim)
    return looks, claims


def main(rounds: int) -> dict[str, float]:
    """Medians."""
    looks, claims = timed(rounds)
    of_looks, of_claims = counted_rounds()
    return {
        "agenda ms": statistics.median(looks),
        "claim ms": statistics.median(claims),
        "both ms": statistics.median(look + claim for look, claim in zip(looks, claims, strict=True)),
        "agenda rows": statistics.median(counts.rows for counts in of_looks),
        "claim rows": statistics.median(counts.rows for counts in of_claims) / BATCH,
        "claim statements": statistics.median(counts.statements for counts in of_claims),
    }


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main(WARM + int(sys.argv[1]))))

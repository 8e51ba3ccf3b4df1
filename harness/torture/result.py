"""What came of one scenario on one database, as plain values for the report and its JSON."""

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from django.db import Error, connection

from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.records.history import CUT_OFF
from harness.torture import ledger, moments
from harness.torture.codes import is_atomic
from harness.torture.facts import Facts
from harness.torture.invariants import (
    AT_THE_END,
    Violation,
    nothing_failed,
    violations,
)
from harness.torture.recovery import claimed_again, distribution, longest_row_of_deaths, recoveries, takeovers
from harness.torture.scenario import Scenario
from harness.torture.world import World

OURS = ("taskrun", "task", "executor", "success")
TABLES = ("torture_effect", "torture_accepted", *(ledger.PREFIX + name for name in OURS))
LOST = ("nothing_lost", "nothing_stuck", "accepted_is_there", "kept_remains", "filtered_was_done")
DOUBLED = ("settled_once", "settled_by_its_own_run", "atomic_effects_once", "one_live_claim", "done_once")


PATIENCE = 60.0
"""Seconds in which a cluster has to take writes again: the scenario before may have killed nodes of it."""


def empty_tables() -> None:
    """Delete all rows; ids continue, so that none is ever used twice."""
    deadline = time.monotonic() + PATIENCE
    while True:
        connection.close()  # it may be to a node that takes no writes any more
        try:
            with connection.cursor() as cursor:
                for table in TABLES:
                    cursor.execute(f"DELETE FROM {table}")
            return
        except Error:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def of(scenario: Scenario, world: World, trouble: str) -> dict[str, Any]:
    """Everything that the report says about it. ``verdict`` is KEPT or BROKEN."""
    world.tally.deaths += moments.deaths(world.folder)
    facts = Facts(ledger.read(), world.tally)
    chosen = AT_THE_END if scenario.may_fail else (*AT_THE_END, nothing_failed)
    found = violations(facts, chosen)
    texts = list(dict.fromkeys([*map(str, found), *world.tally.violations]))
    slowest, taken = recoveries(facts, world.tally), takeovers(facts, world.tally)
    again = claimed_again(facts, world.tally, moments.claims(world.folder))
    return {
        "scenario": scenario.name,
        "number": scenario.number,
        "title": scenario.title,
        "database": world.database.name,
        "verdict": "BROKEN" if texts or trouble else "KEPT",
        "seconds": round(time.monotonic() - world.began, 1),
        "faults": dict(sorted(world.tally.faults.items())),
        **_counts(facts, world),
        "lost": _count(found, LOST),
        "doubled": _count(found, DOUBLED),
        "longest_recovery": round(slowest[0].seconds, 3) if slowest else None,
        "longest_recovery_of": slowest[0].what if slowest else "",
        "longest_row_of_deaths": longest_row_of_deaths(facts, world.tally),
        "longest_takeover": round(taken[0], 3) if taken else None,
        "claimed_again": {whose: distribution(seconds) for whose, seconds in again.items()},
        "facts": world.tally.facts,
        "violations": texts,
        "trouble": trouble,
    }


def _counts(facts: Facts, world: World) -> dict[str, Any]:
    outcomes = [run.outcome for run in facts.ledger.runs]
    return {
        "calls": len(facts.ledger.calls),
        "results": dict(Counter(f"{call.mode or call.verb}: {call.result}" for call in facts.ledger.calls)),
        "unanswered": world.caller.unanswered,
        "tasks": len(facts.calls),
        "runs": len(outcomes),
        "done": outcomes.count(RunOutcome.DONE),
        "rescued": sum(run.outcome == RunOutcome.LOST and run.exception != CUT_OFF for run in facts.ledger.runs),
        "cut_off": sum(run.exception == CUT_OFF for run in facts.ledger.runs),
        "failed": sum(row.status == TaskStatus.FAILED for row in facts.ledger.rows),
        "atomic_effects": sum(seen.kind == "effect" and is_atomic(seen.code) for seen in facts.ledger.seen),
        "zombie_runs": len(_zombies(facts)),
    }


def _zombies(facts: Facts) -> set[tuple[int, int]]:
    """Runs whose claim had gone when they came to their effect."""
    return {(seen.task_id, seen.version) for seen in facts.ledger.seen if not seen.held}


def _count(found: list[Violation], invariants: tuple[str, ...]) -> int:
    return sum(violation.invariant in invariants for violation in found)


def keep_logs(world: Path, target: Path) -> None:
    """Copy the executors' output to where a person can read it."""
    target.mkdir(parents=True, exist_ok=True)
    for log in world.glob("*.log"):
        shutil.copy(log, target)

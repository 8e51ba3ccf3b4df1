"""What must hold, whatever happened. Each invariant is a function from the ledger to texts that name what is wrong."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.torture import ledger
from tests.torture.codes import MAY_FAIL, MOST, concurrency_key, is_atomic
from tests.torture.ledger import Call, Ledger, Row, Run, Seen

Claim = tuple[int, int]
SUCCESSES = (RunOutcome.DONE, RunOutcome.RESCHEDULED)
CHANGING = frozenset({"created", "replaced", "deferred", "moved", "beside", "cancelled", "stopping"})

BESIDE = frozenset({"deferred", "beside", "stopping"})


class Facts:
    """The ledger, sorted for the questions that are asked."""

    def __init__(self, found: Ledger) -> None:
        self.ledger = found

    @cached_property
    def calls(self) -> dict[int, list[Call]]:
        """Of each task the calls that changed something, in the order in which they took effect."""
        grouped: defaultdict[int, list[Call]] = defaultdict(list)
        for call in self.ledger.calls:
            if call.result in CHANGING and call.task_id is not None:
                grouped[call.task_id].append(call)
        for calls in grouped.values():
            calls.sort(key=lambda call: (call.version, call.id))
        return grouped

    @cached_property
    def effects(self) -> Counter[Claim]:
        """How many effects each claim had."""
        return Counter((seen.task_id, seen.version) for seen in self.ledger.seen if seen.kind == "effect")

    @cached_property
    def runs(self) -> dict[int, list[Run]]:
        """Of each task, in the order of their claims."""
        grouped: defaultdict[int, list[Run]] = defaultdict(list)
        for run in self.ledger.runs:
            grouped[run.task_id].append(run)
        for runs in grouped.values():
            runs.sort(key=lambda run: (run.version, run.id))
        return grouped

    @cached_property
    def settlements(self) -> list[Run]:
        """The history, without what tells of a cancelled task that did not run."""
        return [run for run in self.ledger.runs if run.outcome != RunOutcome.CANCELLED or run.started]

    @cached_property
    def never_claimed(self) -> set[Claim]:
        """Versions that a row had while it waited: no run can have them."""
        waiting = (call for call in self.ledger.calls if call.result in ("created", "replaced"))
        return {(call.task_id, call.version) for call in waiting if call.task_id and call.version is not None}

    @cached_property
    def rows(self) -> dict[int, Row]:
        return {row.task_id: row for row in self.ledger.rows}

    def governing(self, task_id: int, version: int) -> Call | None:
        """The last call that took effect before this version was claimed."""
        calls = self.calls.get(task_id, [])
        # Exact: a call that changes a pending row makes a new version, one beside a run has that run's version.
        at = bisect_left(calls, version, key=lambda call: call.version or 0)
        return calls[at - 1] if at else None

    def data_after(self, call: Call) -> int | None:
        """The data of the schedule that this call left: its own, or what a reschedule found."""
        if call.nonce or call.task_id is None:
            return call.nonce
        version = call.version or 0
        if call.result == "beside":
            # A schedule beside the same run, unless it was cancelled since; else the run's own.
            calls = self.calls[call.task_id]
            earlier = [one for one in calls[: calls.index(call)] if one.version == version and one.result in BESIDE]
            if earlier and earlier[-1].verb != "cancel":
                return self.data_after(earlier[-1])
        before = self.governing(call.task_id, version)
        return self.data_after(before) if before else None


def settled_once(facts: Facts) -> Iterator[str]:
    """No claim is settled twice."""
    for (task_id, version), times in Counter((run.task_id, run.version) for run in facts.settlements).items():
        if times > 1:
            outcomes = [RunOutcome(run.outcome).name for run in facts.runs[task_id] if run.version == version]
            yield f"task {task_id}, version {version}: settled {times} times ({', '.join(outcomes)})"


def settled_by_its_own_run(facts: Facts) -> Iterator[str]:
    """The history of a claim tells of the run of that claim."""
    for run in facts.ledger.runs:
        claim = run.result.get("claim") if isinstance(run.result, dict) else None
        if claim is not None and claim != run.version:
            yield f"{_named(run)}: settled by the run of version {claim}"


def atomic_effects_once(facts: Facts) -> Iterator[str]:
    """Atomic effects are the successful settlements, exactly."""
    settled = {(run.task_id, run.version): run for run in facts.settlements if is_atomic(run.code)}
    for claim, run in settled.items():
        if run.outcome in SUCCESSES and facts.effects[claim] != 1:
            yield f"{_named(run)}: settled as {RunOutcome(run.outcome).name}, and has {facts.effects[claim]} effects"
    for seen in facts.ledger.seen:
        claim = seen.task_id, seen.version
        if seen.kind != "effect" or not is_atomic(seen.code):
            continue
        # A run that asks for another time and is to be cancelled is settled as cancelled: its effects stand.
        if claim not in settled or settled[claim].outcome not in (*SUCCESSES, RunOutcome.CANCELLED):
            as_what = RunOutcome(settled[claim].outcome).name if claim in settled else "nothing"
            yield f"{_named(seen)}: has an effect, but was settled as {as_what}"
        elif facts.effects[claim] > 1:
            yield f"{_named(seen)}: has {facts.effects[claim]} effects"


def plain_effects_at_least_once(facts: Facts) -> Iterator[str]:
    """What was settled with success has had its effect."""
    for run in facts.ledger.runs:
        if run.outcome in SUCCESSES and not is_atomic(run.code) and not facts.effects[run.task_id, run.version]:
            yield f"{_named(run)}: settled as {RunOutcome(run.outcome).name} without any effect"


def one_live_claim(facts: Facts) -> Iterator[str]:
    """Never two live claims of one task."""
    by_task: defaultdict[int, list[Seen]] = defaultdict(list)
    owners: defaultdict[Claim, set[tuple[int, int]]] = defaultdict(set)
    begun: Counter[Claim] = Counter()
    for seen in facts.ledger.seen:
        claim = seen.task_id, seen.version
        owners[claim].add((seen.executor, seen.process))
        begun[claim] += seen.kind == "begin"
        if seen.held:
            by_task[seen.task_id].append(seen)
    for (task_id, version), executors in owners.items():
        if len(executors) > 1:
            yield f"task {task_id}, version {version}: run by several executors {sorted(executors)}"
    for (task_id, version), times in begun.items():
        if times > 1:
            yield f"task {task_id}, version {version}: begun {times} times"
    for held in by_task.values():
        held.sort(key=lambda seen: seen.at)
        for before, after in pairwise(held):
            if after.version < before.version and after.at > before.at:
                yield f"{_named(after)}: held its claim after version {before.version} had been claimed"


def limits_kept(facts: Facts) -> Iterator[str]:
    """Never more runs at a time than ``max_concurrent``: a run is one from its begin to its effect, if it held its
    claim at both.
    """
    seen: defaultdict[Claim, dict[str, Seen]] = defaultdict(dict)
    for one in facts.ledger.seen:
        if one.code in MOST and one.held:
            seen[one.task_id, one.version][one.kind] = one
    moments: defaultdict[tuple[str, str], list[tuple[datetime, int, Seen]]] = defaultdict(list)
    for kinds in seen.values():
        if "begin" in kinds and "effect" in kinds:
            begin, end = kinds["begin"], kinds["effect"]
            of = begin.code, concurrency_key(begin.code, begin.num)
            moments[of] += [(begin.at, 1, begin), (end.at, -1, end)]
    for (code, key), changes in moments.items():
        running = 0
        for _, change, one in sorted(changes, key=lambda found: found[:2]):
            running += change
            if running > MOST[code]:
                yield f"{_named(one)}: run beside {running - 1} others {f'of key {key}' if key else ''}".rstrip()


def schedule_honoured(facts: Facts) -> Iterator[str]:
    """Each run is of the schedule that was last accepted before its claim."""
    moved = {(run.task_id, run.version) for run in facts.ledger.runs if run.outcome == RunOutcome.RESCHEDULED}
    first = {(seen.task_id, seen.version): seen for seen in reversed(facts.ledger.seen)}
    for (task_id, version), seen in first.items():
        call = facts.governing(task_id, version)
        if (task_id, version) in facts.never_claimed:
            yield f"{_named(seen)}: ran in a version that a pending row had: its claim took no notice of a new schedule"
        if call is None:
            continue  # added by other means than the driver's
        if call.verb == "cancel":
            yield f"{_named(seen)}: ran after it was cancelled ({call.result} in version {call.version})"
            continue
        nonce = facts.data_after(call)
        if seen.nonce != nonce:
            yield f"{_named(seen)}: ran with the data of call {seen.nonce}, but {nonce} was accepted last"
        by_itself = any((task_id, between) in moved for between in range((call.version or 0) + 1, version))
        if not by_itself and seen.when != call.when:
            yield f"{_named(seen)}: ran for {seen.when}, but {call.when} was accepted last ({call.verb})"


def nothing_lost(facts: Facts) -> Iterator[str]:
    """Every accepted task ends settled or visibly failed. At the end only."""
    for task_id, calls in facts.calls.items():
        last, row = calls[-1], facts.rows.get(task_id)
        later = [run for run in facts.runs.get(task_id, []) if run.version > (last.version or 0)]
        name = f"{last.code} {last.num} (task {task_id}; last accepted: {last.verb}, {last.result}, {last.version})"
        if last.verb == "cancel":
            if row:
                yield f"{name}: cancelled, but still there in status {row.status}"
        elif row is None:
            if not later or later[-1].outcome != RunOutcome.DONE:
                ends = [RunOutcome(run.outcome).name for run in later]
                yield f"{name}: gone without having been done (runs since: {', '.join(ends) or 'none'})"
        elif row.status == TaskStatus.FAILED and row.nonce != facts.data_after(last):
            yield f"{name}: failed with the data of another schedule ({row.nonce})"


def nothing_stuck(facts: Facts) -> Iterator[str]:
    """No claim is left behind. At the end only."""
    for row in facts.ledger.rows:
        if row.status == TaskStatus.RUNNING:
            owner = "a live executor" if row.owner_alive else "a dead executor"
            yield f"{_named(row)}: still claimed by {owner} ({row.executor})"


def nothing_failed(facts: Facts) -> Iterator[str]:
    """Nothing ends FAILED that was not meant to. At the end only, where the scenario promises it."""
    for row in facts.ledger.rows:
        if row.status == TaskStatus.FAILED and row.code not in MAY_FAIL:
            yield f"{_named(row)}: FAILED ({row.error.strip().splitlines()[-1:] or ''})"


Invariant = Callable[[Facts], Iterable[str]]
ALWAYS: tuple[Invariant, ...] = (
    settled_once,
    settled_by_its_own_run,
    atomic_effects_once,
    plain_effects_at_least_once,
    one_live_claim,
    limits_kept,
    schedule_honoured,
)
AT_THE_END: tuple[Invariant, ...] = (*ALWAYS, nothing_lost, nothing_stuck)


class Violation(NamedTuple):
    """One thing that is wrong, and the invariant that says so."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


def violations(facts: Facts, chosen: Iterable[Invariant]) -> list[Violation]:
    """Everything that is wrong."""
    return [Violation(invariant.__name__, text) for invariant in chosen for text in invariant(facts)]


def violations_so_far() -> list[str]:
    """What is wrong already, while things still go on."""
    return [str(one) for one in violations(Facts(ledger.read()), ALWAYS)]


def _named(one: Seen | Run | Row) -> str:
    return f"{one.code} {one.num} (task {one.task_id}, version {one.version})"

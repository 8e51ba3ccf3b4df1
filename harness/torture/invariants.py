"""What must hold, whatever happened. Each invariant is a function from the ledger to texts that name what is wrong."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.records.history import CUT_OFF
from harness.torture import ledger
from harness.torture.codes import MAX_RUNNING, MAY_FAIL, concurrency_key, is_atomic
from harness.torture.facts import Claim, Facts, named
from harness.torture.ledger import Call, Run, Seen
from harness.torture.mangling import data_unchanged, errors_unchanged, identities_unchanged, results_unchanged
from harness.torture.misuse import OF_ANOTHER
from harness.torture.promised import accepted_is_there, done_once, filtered_was_done, kept_remains

AFTERMATH = timedelta(seconds=15)
"""The time after a fault in which an executor may be declared dead because of it, on a busy machine."""
SUCCESSES = (RunOutcome.DONE, RunOutcome.RESCHEDULED)


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
            yield f"{named(run)}: settled by the run of version {claim}"


def atomic_effects_once(facts: Facts) -> Iterator[str]:
    """Atomic effects are the successful settlements, exactly."""
    settled = {(run.task_id, run.version): run for run in facts.settlements if is_atomic(run.code)}
    for claim, run in settled.items():
        if run.outcome in SUCCESSES and facts.effects[claim] != 1:
            yield f"{named(run)}: settled as {RunOutcome(run.outcome).name}, and has {facts.effects[claim]} effects"
    for seen in facts.ledger.seen:
        claim = seen.task_id, seen.version
        if seen.kind != "effect" or not is_atomic(seen.code):
            continue
        # A run that asks for another time and is to be cancelled is settled as cancelled: its effects stand.
        if claim not in settled or settled[claim].outcome not in (*SUCCESSES, RunOutcome.CANCELLED):
            as_what = RunOutcome(settled[claim].outcome).name if claim in settled else "nothing"
            yield f"{named(seen)}: has an effect, but was settled as {as_what}"
        elif facts.effects[claim] > 1:
            yield f"{named(seen)}: has {facts.effects[claim]} effects"


def plain_effects_at_least_once(facts: Facts) -> Iterator[str]:
    """What was settled with success has had its effect."""
    for run in facts.ledger.runs:
        if run.outcome in SUCCESSES and not is_atomic(run.code) and not facts.effects[run.task_id, run.version]:
            yield f"{named(run)}: settled as {RunOutcome(run.outcome).name} without any effect"


def one_live_claim(facts: Facts) -> Iterator[str]:
    """No task ever has two live claims."""
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
                yield f"{named(after)}: held its claim after version {before.version} had been claimed"


def limits_kept(facts: Facts) -> Iterator[str]:
    """No more runs take place at a time than ``max_concurrent``. A run counts from its begin to its effect, if it held
    its claim at both.
    """
    seen: defaultdict[Claim, dict[str, Seen]] = defaultdict(dict)
    for one in facts.ledger.seen:
        if one.code in MAX_RUNNING and one.held:
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
            if running > MAX_RUNNING[code]:
                yield f"{named(one)}: run during {running - 1} others {f'of key {key}' if key else ''}".rstrip()


def schedule_honoured(facts: Facts) -> Iterator[str]:
    """Each run is of the schedule that was last accepted before its claim."""
    moved = {(run.task_id, run.version) for run in facts.ledger.runs if run.outcome == RunOutcome.RESCHEDULED}
    first = {(seen.task_id, seen.version): seen for seen in reversed(facts.ledger.seen)}
    for (task_id, version), seen in first.items():
        call = facts.governing(task_id, version)
        if (task_id, version) in facts.never_claimed:
            yield f"{named(seen)}: ran in a version that a pending row had: its claim took no notice of a new schedule"
        if call is None:
            continue  # added by other means than the driver's
        if call.verb == "cancel":
            yield f"{named(seen)}: ran after it was cancelled ({call.result} in version {call.version})"
            continue
        nonce = facts.data_after(call)
        if seen.nonce != nonce:
            yield f"{named(seen)}: ran with the data of call {seen.nonce}, but {nonce} was accepted last"
        by_itself = any((task_id, between) in moved for between in range((call.version or 0) + 1, version))
        if not by_itself and seen.when != call.when:
            yield f"{named(seen)}: ran for {seen.when}, but {call.when} was accepted last ({call.verb})"


def nothing_lost(facts: Facts) -> Iterator[str]:
    """Every accepted task ends settled or visibly failed. At the end only."""
    for task_id, calls in facts.calls.items():
        last, row = calls[-1], facts.rows.get(task_id)
        later = [run for run in facts.runs.get(task_id, []) if run.version > (last.version or 0)]
        name = f"{named(last)}: last accepted: {last.mode or last.verb}, {last.result}"
        if last.verb == "cancel":
            if row:
                yield f"{name}: cancelled, but still there in status {row.status}"
        elif row is None:
            if (not later and not _is_dropped(facts, last)) or (later and later[-1].outcome != RunOutcome.DONE):
                ends = [RunOutcome(run.outcome).name for run in later]
                yield f"{name}: gone without having been done (runs since: {', '.join(ends) or 'none'})"
        elif row.status == TaskStatus.FAILED and row.nonce != facts.data_after(last):
            yield f"{name}: failed with the data of another schedule ({row.nonce})"


def _is_dropped(facts: Facts, call: Call) -> bool:
    """Whether an add with ``once`` was deferred during a run that has then done the same, once."""
    runs = [run for run in facts.runs.get(call.task_id or 0, []) if run.version == call.version]
    is_deferred = (call.result, call.mode) == ("deferred", "once")
    return is_deferred and any(run.outcome == RunOutcome.DONE and facts.is_once(run) for run in runs)


def nothing_stuck(facts: Facts) -> Iterator[str]:
    """No claim is left behind. At the end only."""
    for row in facts.ledger.rows:
        if row.status == TaskStatus.RUNNING:
            owner = "a live executor" if row.owner_alive else "a dead executor"
            yield f"{named(row)}: still claimed by {owner} ({row.executor})"


def runs_apart(facts: Facts) -> Iterator[str]:
    """No run meets what another one has left in its thread."""
    for run in facts.ledger.runs:
        if any(text in run.error for text in (OF_ANOTHER, "A durable atomic block cannot be nested")):
            yield f"{named(run)}: {run.error.strip().splitlines()[-1]}"


def rescues_are_deaths(facts: Facts) -> Iterator[str]:
    """Every rescue names an executor that a fault killed, or may have cut off from the database. At the end only."""
    if facts.tally is None:
        return
    killed = {pid for pid, _ in facts.tally.deaths}
    for run in facts.ledger.runs:
        is_rescue = run.outcome == RunOutcome.LOST and run.exception != CUT_OFF
        if is_rescue and facts.ledger.processes.get(run.executor or 0) not in killed and not _is_cut_off(facts, run):
            yield f"{named(run)}: rescued from executor {run.executor}, which nothing has killed ({run.error.strip()})"


def _is_cut_off(facts: Facts, run: Run) -> bool:
    """Whether a fault that may have kept the executor from renewing its lease ended shortly before, or lasted still."""
    faults = facts.tally.injections if facts.tally else ()
    return any(one.cuts_off and one.began <= run.finished <= one.over + AFTERMATH for one in faults)


def nothing_failed(facts: Facts) -> Iterator[str]:
    """No task ends FAILED that was not meant to. At the end only, where the scenario promises it."""
    for row in facts.ledger.rows:
        if row.status == TaskStatus.FAILED and row.code not in MAY_FAIL:
            yield f"{named(row)}: FAILED ({row.error.strip().splitlines()[-1:] or ''})"


Invariant = Callable[[Facts], Iterable[str]]
ALWAYS: tuple[Invariant, ...] = (
    settled_once,
    settled_by_its_own_run,
    atomic_effects_once,
    plain_effects_at_least_once,
    one_live_claim,
    limits_kept,
    runs_apart,
    schedule_honoured,
    accepted_is_there,
    kept_remains,
    filtered_was_done,
    done_once,
    identities_unchanged,
    data_unchanged,
    results_unchanged,
    errors_unchanged,
)
AT_THE_END: tuple[Invariant, ...] = (*ALWAYS, nothing_lost, nothing_stuck, rescues_are_deaths)


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
    """Return the violations that show already while the load runs."""
    return [str(one) for one in violations(Facts(ledger.read()), ALWAYS)]

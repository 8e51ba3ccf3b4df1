"""Invariants of what an add says: that its task is there, is kept, or has been done; and that it is done once."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from django_delayed_tasks.states import RunOutcome
from harness.torture.facts import CHANGING, Facts, named
from harness.torture.ledger import Call

Identity = tuple[str, str]
REMAINING = CHANGING - {"cancelled", "stopping"}
"""Results of calls after which something remains to be run."""


def accepted_is_there(facts: Facts) -> Iterator[str]:
    """The call's own transaction finds the row of what it was told to be accepted."""
    for call in facts.ledger.calls:
        if call.result in CHANGING and call.task_id is None:
            yield f"{_named(call)}: there is no row of this identity"


def kept_remains(facts: Facts) -> Iterator[str]:
    """What is kept, or exists, is not a task that is being stopped without anything to follow.

    Only calls of which is known that one began when the other had been answered tell anything.
    """
    calls = _by_identity(facts)
    for kept in (call for call in facts.ledger.calls if call.result in ("kept", "exists")):
        of_same = calls[kept.code, kept.num]
        stopping = [call for call in of_same if call.result == "stopping" and call.sequence <= kept.after]
        if not stopping:
            continue
        last = max(stopping, key=lambda call: call.sequence)
        if not any(_may_be_between(last, call, kept) for call in of_same if call.result in REMAINING):
            yield f"{_named(kept)}: of a task that was being stopped (call {last.sequence}), and nothing follows"


def filtered_was_done(facts: Facts) -> Iterator[str]:
    """What is filtered was done by a task that had been added with ``once``."""
    done = {(run.code, run.num) for run in facts.ledger.runs if run.outcome == RunOutcome.DONE and facts.is_once(run)}
    for call in facts.ledger.calls:
        if call.result == "filtered" and (call.code, call.num) not in done:
            yield f"{_named(call)}: it has not been done"


def done_once(facts: Facts) -> Iterator[str]:
    """Adds with ``once`` come to one run that is done; one that was rescheduled is an explicit wish."""
    done: Counter[Identity] = Counter()
    for run in facts.ledger.runs:
        call = facts.governing(run.task_id, run.version)
        done[run.code, run.num] += (
            run.outcome == RunOutcome.DONE and call is not None and (call.verb, call.mode) == ("add", "once")
        )
    for (code, num), times in done.items():
        if times > 1:
            yield f"{code} {num}: done {times} times, and was added with once"


def _by_identity(facts: Facts) -> dict[Identity, list[Call]]:
    grouped: defaultdict[Identity, list[Call]] = defaultdict(list)
    for call in facts.ledger.calls:
        grouped[call.code, call.num].append(call)
    return grouped


def _may_be_between(first: Call, call: Call, last: Call) -> bool:
    is_before = call.sequence <= first.after
    is_after = last.sequence <= call.after
    return not is_before and not is_after


def _named(call: Call) -> str:
    return f"{named(call)}: {call.mode or call.verb}, {call.result} (call {call.sequence})"

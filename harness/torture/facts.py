"""The ledger, sorted for the questions that invariants ask."""

from bisect import bisect_left
from collections import Counter, defaultdict
from functools import cached_property

from django_delayed_tasks.states import RunOutcome, TaskStatus
from harness.torture.ledger import Call, Ledger, Row, Run, Seen
from harness.torture.tally import Tally
from harness.torture.texts import escaped

Claim = tuple[int, int]
CHANGING = frozenset({"created", "replaced", "deferred", "moved", "after_run", "cancelled", "stopping"})

DURING_RUN = frozenset({"deferred", "after_run", "stopping"})


class Facts:
    """The ledger, sorted for the questions that are asked."""

    def __init__(self, found: Ledger, tally: Tally | None = None) -> None:
        """``tally``: what was done to the executors; None while that is not yet known."""
        self.ledger = found
        self.tally = tally

    @cached_property
    def calls(self) -> dict[int, list[Call]]:
        """The calls that changed something, by task, in the order in which they took effect."""
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
        """The runs of each task, in the order of their claims."""
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
        # Exact: a call that changes a pending row makes a new version, one during a run has that run's version.
        at = bisect_left(calls, version, key=lambda call: call.version or 0)
        return calls[at - 1] if at else None

    @cached_property
    def failed(self) -> list[Row]:
        """Rows that wait for a person. The error that another row shows is of an earlier version."""
        return [row for row in self.ledger.rows if row.status == TaskStatus.FAILED]

    def schedule_after(self, call: Call) -> Call | None:
        """The add whose data is that of the schedule that this call left: itself, or what a reschedule found."""
        if call.verb == "add" or call.task_id is None:
            return call if call.verb == "add" else None
        version = call.version or 0
        if call.result == "after_run":
            # A schedule deferred during the same run, unless it was cancelled since; else the run's own.
            calls = self.calls[call.task_id]
            earlier = [one for one in calls[: calls.index(call)] if one.version == version and one.result in DURING_RUN]
            if earlier and earlier[-1].verb != "cancel":
                return self.schedule_after(earlier[-1])
        before = self.governing(call.task_id, version)
        return self.schedule_after(before) if before else None

    def data_after(self, call: Call) -> int | None:
        """The data of the schedule that this call left."""
        schedule = self.schedule_after(call)
        return schedule.nonce if schedule else None

    def is_once(self, run: Run) -> bool:
        """Whether the schedule that was run had been added with ``once``."""
        call = self.governing(run.task_id, run.version)
        schedule = self.schedule_after(call) if call else None
        return schedule is not None and schedule.mode == "once"


def named(one: Call | Seen | Run | Row) -> str:
    """Return the subject of a line: the identity, in ASCII, and the claim or version."""
    return f"{escaped(one.code)} {escaped(one.num)} (task {one.task_id}, version {one.version})"

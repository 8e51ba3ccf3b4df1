"""Histories: what clients and handlers did and were told, written down outside of the database, and what must be true.

Each process appends lines to a file of its own in the world's folder. All moments are of the host's monotonic clock.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from harness.torture.linearizability import Operation, Undecided, contradiction

PREFIX = "history-"
SOON, LATER = "soon", "later"
"""What is given to an add and to a reschedule: whether the task may be claimed before the history ends."""
BEGUN, ENDED = "begun", "ended"
CODE = "t-history"
"""The code of the tasks whose identities these are."""


class Notes:
    """The file of one process, or of one client."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{PREFIX}{name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def operation(self, thing: str, operation: Operation) -> None:
        """Note what was done with a thing, in one write: a process may be killed at any moment."""
        self._write({"thing": thing, **asdict(operation)})

    def holding(self, held: "Holding") -> None:
        """Note for how long a lease was held."""
        self._write(held._asdict())

    def _write(self, values: dict[str, object]) -> None:
        os.write(self._file, (json.dumps(values) + "\n").encode())


class Holding(NamedTuple):
    """A lease, and between which moments its holder is sure to have had it."""

    lease: str
    token: int
    since: float
    until: float
    holder: str


class History(NamedTuple):
    """Everything that was written down: operations by the identity that they are about, and leases by their name."""

    operations: dict[str, list[Operation]]
    holdings: dict[str, list[Holding]]

    @classmethod
    def of(cls, folder: Path) -> "History":
        operations: defaultdict[str, list[Operation]] = defaultdict(list)
        holdings: defaultdict[str, list[Holding]] = defaultdict(list)
        for path in sorted(folder.glob(f"{PREFIX}*.log")):
            for values in map(json.loads, path.read_text().splitlines()):
                if "lease" in values:
                    holdings[values["lease"]].append(Holding(**values))
                else:
                    operations[values.pop("thing")].append(Operation(**values))
        return cls(operations, holdings)

    def settled(self, claims: Collection[tuple[str, str]], by: float) -> None:
        """Take from the database, as it was at a moment, which runs (identity, claim) it had settled by then."""
        for thing, operations in self.operations.items():
            for at, one in enumerate(operations):
                if one.verb == "end" and (thing, one.given) in claims:
                    operations[at] = replace(one, answer=ENDED, answered=by)

    def violations(self) -> Iterator[str]:
        """Name what is wrong, each with the operations about it."""
        for thing, operations in sorted(self.operations.items()):
            try:
                stuck = contradiction(operations, TASK_BEGINS, task_after)
            except Undecided as error:
                yield f"{thing}: it could not be decided whether this is linearizable: {error}"
                continue
            if stuck:
                told = sorted(operations, key=lambda one: one.invoked)
                lines = ["not linearizable; in the end none of these can be the next:", *map(str, stuck)]
                yield "\n    ".join([f"{thing}: {lines[0]}", *lines[1:], "of:", *map(str, told)])
        for name, held in sorted(self.holdings.items()):
            yield from _two_holders(name, held)


def _two_holders(name: str, held: Sequence[Holding]) -> Iterator[str]:
    in_turn = sorted(held, key=lambda one: one.since)
    latest: Holding | None = None
    for one in in_turn:
        if latest and one.since < latest.until:
            yield f"{name}: held by {latest.holder} until {latest.until:.3f}, and by {one.holder} from {one.since:.3f}"
        if latest is None or one.until > latest.until:
            latest = one
    for before, after in pairwise(in_turn):
        if after.token <= before.token:
            yield f"{name}: token {after.token} of {after.holder} came after {before.token} of {before.holder}"


class TaskState(NamedTuple):
    """What is known of the row of an identity.

    ``status``: absent, waiting, or running, ``claim`` then being that of a run whose begin was noted. ``when``: whether
    it may be claimed soon. ``follows``: the ``when`` of what was deferred until the run ends. ``stops``: it was
    cancelled during the run.
    """

    status: str
    when: str = ""
    claim: str = ""
    follows: str = ""
    stops: bool = False


ABSENT = TaskState("absent")
TASK_BEGINS = frozenset({ABSENT})


def task_after(state: TaskState, operation: Operation) -> Iterator[TaskState]:
    """The states in which a task may be after an operation, itself having been claimed, released or rescued meanwhile.

    The answers are those of the table in docs/explanation/design.md.
    """
    for before in _by_itself(state):
        for answer, after in _answers(before, operation):
            if operation.answer in (None, answer):
                yield after


def _by_itself(state: TaskState) -> Iterator[TaskState]:
    """What becomes of a task without a call or a run: a claim of which no handler learns, and its end; a rescue."""
    yield state
    if state.status == "waiting" and state.when == SOON:
        yield TaskState("running", SOON)
    elif state.status == "running":
        yield (over := _over(state, TaskState("waiting", SOON)))
        if over.when == SOON:
            yield TaskState("running", SOON)


def _over(state: TaskState, otherwise: TaskState) -> TaskState:
    """What a run leaves: the schedule that was deferred, or nothing if it was cancelled."""
    if state.follows:
        return TaskState("waiting", state.follows)
    return ABSENT if state.stops else otherwise


def _answers(state: TaskState, operation: Operation) -> Iterator[tuple[str, TaskState]]:
    """What the operation may answer in this state, and what it leaves."""
    status, given = state.status, operation.given
    match operation.verb:
        case "add" if status == "running":
            yield "deferred", state._replace(follows=given)
        case "add":
            yield "created" if status == "absent" else "replaced", TaskState("waiting", given)
        case "cancel" if status == "running":
            yield "stopping", state._replace(follows="", stops=True)
        case "cancel":
            yield "missing" if status == "absent" else "cancelled", ABSENT
        case "reschedule" if status == "running":
            yield "moved", state._replace(follows=given)
        case "reschedule":
            yield ("missing", ABSENT) if status == "absent" else ("moved", TaskState("waiting", given))
        case "look":
            yield "missing" if status == "absent" else "there", state
        case "begin" if status == "running" and not state.claim:
            yield BEGUN, state._replace(claim=given)
        case "end" if state.claim == given:
            yield ENDED, _over(state, ABSENT)


def now() -> float:
    """The present moment, for all processes of this host."""
    return time.monotonic()

"""Histories that are linearizable, and histories that are not."""

from pathlib import Path

import pytest
from django.conf import settings

from harness.torture import linearizability
from harness.torture.histories import LATER, SOON, History, Holding, Notes
from harness.torture.linearizability import Operation

__test__ = settings.DDT_DATABASE == "sqlite"  # nothing is asked of a database

TASK = "order 1"
CREATED = Operation("add", 1, 2, "created", LATER)
CREATED_SOON = Operation("add", 1, 2, "created", SOON)
BEGUN = Operation("begin", 0, 3, "begun", "7.1")
ENDED = Operation("end", 4, given="7.1")


def complaints(*operations: Operation, settled: str = "") -> list[str]:
    history = History({TASK: list(operations)}, {})
    history.settled({(TASK, settled)}, by=8)
    return list(history.violations())


@pytest.mark.parametrize(
    "operations",
    [
        [CREATED, Operation("cancel", 3, 4, "cancelled"), Operation("look", 5, 6, "missing")],
        [CREATED, Operation("add", 3, 4, "replaced", SOON), Operation("cancel", 5, 6, "stopping")],
        [CREATED, Operation("reschedule", 3, 4, "moved", LATER), Operation("look", 5, 6, "there")],
        [Operation("cancel", 1, 2, "missing"), Operation("reschedule", 3, 4, "missing", SOON)],
        [CREATED, Operation("cancel", 1.5, 4, "missing")],
        [Operation("cancel", 0, 9, "cancelled"), CREATED, Operation("add", 3, 4, "replaced", SOON)],
    ],
    ids=["cancelled", "claimed unseen", "moved", "of nothing", "at the same time", "one long call"],
)
def test_of_calls_alone(operations: list[Operation]) -> None:
    assert complaints(*operations) == []


@pytest.mark.parametrize(
    "operations",
    [
        [CREATED, Operation("cancel", 3, 4, "missing")],
        [CREATED, Operation("reschedule", 3, 4, "missing", LATER)],
        [CREATED, Operation("look", 3, 4, "missing")],
        [CREATED_SOON, Operation("look", 3, 4, "missing")],
        [CREATED, Operation("cancel", 3, 4, "stopping")],
        [CREATED, Operation("add", 3, 4, "created", LATER)],
        [CREATED, Operation("cancel", 3, 4, "cancelled"), Operation("look", 5, 6, "there")],
        [CREATED, Operation("cancel", 3, 4, "cancelled"), Operation("cancel", 3, 4, "cancelled")],
        [Operation("cancel", 1, 2, "cancelled")],
    ],
    ids=[
        "a lost cancel", "a lost reschedule", "a lost add", "a lost add of what is due", "stopping what cannot run",
        "created twice", "undone", "cancelled twice", "cancelled without an add",
    ],
)  # fmt: skip
def test_what_calls_alone_contradict(operations: list[Operation]) -> None:
    [complaint] = complaints(*operations)
    assert complaint.startswith(f"{TASK}: not linearizable")


@pytest.mark.parametrize("answer", ["missing", "there"])
def test_an_add_of_unknown_outcome_may_have_happened_at_any_later_time(answer: str) -> None:
    unknown = Operation("add", 1, given=LATER)
    assert complaints(unknown, Operation("look", 9, 10, answer)) == []
    assert complaints(unknown, Operation("look", 3, 4, "missing"), Operation("look", 9, 10, answer)) == []


def test_an_unknown_outcome_explains_no_more_than_one_change() -> None:
    unknown = Operation("cancel", 3)
    once = [CREATED, unknown, Operation("cancel", 5, 6, "missing")]
    assert complaints(*once) == []
    assert complaints(*once, Operation("add", 7, 8, "created", LATER), Operation("look", 9, 10, "missing")) != []
    # What began after the answer that it is to explain cannot have happened before.
    assert complaints(CREATED, Operation("cancel", 5, 6, "missing"), Operation("cancel", 7)) != []


def test_a_run_ends_a_task() -> None:
    assert complaints(CREATED_SOON, BEGUN, ENDED, Operation("look", 9, 10, "missing"), settled="7.1") == []
    assert complaints(CREATED_SOON, BEGUN, ENDED, Operation("cancel", 9, 10, "missing")) == []


def test_a_run_that_has_not_come_to_its_end_ends_no_task() -> None:
    assert complaints(CREATED_SOON, BEGUN, Operation("look", 9, 10, "missing")) != []
    assert complaints(CREATED_SOON, BEGUN, Operation("cancel", 3, 3.5, "missing"), ENDED, settled="7.1") != []


def test_a_run_of_nothing() -> None:
    assert complaints(BEGUN) != []
    assert complaints(CREATED, BEGUN) != []
    assert (
        complaints(CREATED_SOON, BEGUN, ENDED, Operation("begin", 0, 6, "begun", "7.2"), settled="7.1") == []
    )  # rescued
    ends = [ENDED, Operation("end", 7, given="7.2", answer="ended")]
    assert complaints(CREATED_SOON, BEGUN, Operation("begin", 0, 6, "begun", "7.2"), *ends, settled="7.1") != []


def test_what_was_cancelled_during_its_run_is_gone_with_it_unless_it_was_added_again() -> None:
    stopped = [CREATED_SOON, BEGUN, Operation("cancel", 3.2, 3.4, "stopping")]
    again = Operation("add", 3.5, 3.6, "deferred", LATER)
    assert complaints(*stopped, ENDED, Operation("look", 9, 10, "missing"), settled="7.1") == []
    assert complaints(*stopped, ENDED, Operation("look", 9, 10, "there"), settled="7.1") != []
    assert complaints(*stopped, again, ENDED, Operation("look", 9, 10, "there"), settled="7.1") == []
    assert complaints(*stopped, again, ENDED, Operation("look", 9, 10, "missing"), settled="7.1") != []
    assert complaints(*stopped, Operation("look", 9, 10, "missing")) == []  # its executor has died


def test_many_operations_at_the_same_time_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    adds = [Operation("add", 1, 99, "created" if number == 0 else "replaced", LATER) for number in range(12)]
    lost = [Operation("reschedule", 1, given=LATER) for _ in range(6)]
    assert complaints(*adds, *lost, Operation("look", 100, 101, "there")) == []
    assert complaints(*adds, *lost, Operation("look", 100, 101, "missing")) != []
    monkeypatch.setattr(linearizability, "MOST", 10)
    assert "could not be decided" in complaints(*adds, *lost, Operation("look", 100, 101, "missing"))[0]


def held(token: int, since: float, until: float) -> Holding:
    return Holding("index", token, since, until, f"node {token}")


@pytest.mark.parametrize(
    ("holdings", "expected"),
    [
        ([held(1, 0, 5), held(2, 5, 6), held(4, 7, 8)], 0),
        ([held(1, 0, 5), held(2, 4, 6)], 1),
        ([held(1, 0, 9), held(2, 3, 4), held(3, 6, 7)], 2),
        ([held(2, 0, 5), held(1, 6, 7)], 1),
        ([held(2, 0, 5), held(2, 6, 7)], 1),
    ],
    ids=["in turn", "two at once", "one throughout", "a token that falls", "a token that stays"],
)
def test_leases(holdings: list[Holding], expected: int) -> None:
    assert len(list(History({}, {"index": holdings}).violations())) == expected


def test_what_processes_note_is_read(tmp_path: Path) -> None:
    first, second = Notes(tmp_path, "one"), Notes(tmp_path, "two")
    first.operation(TASK, CREATED)
    second.operation(TASK, ENDED)
    second.holding(held(1, 0, 5))
    assert History.of(tmp_path) == History({TASK: [CREATED, ENDED]}, {"index": [held(1, 0, 5)]})

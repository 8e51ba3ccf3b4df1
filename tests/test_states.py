"""What the database and callers keep: the values of the enumerations, and what people read for them."""

from enum import StrEnum
from typing import get_args

import pytest

from django_delayed_tasks.states import (
    AddAction,
    CancelResult,
    IfExists,
    IfExistsName,
    KeepHistory,
    NextState,
    RunOutcome,
    TaskStatus,
)


def test_a_row_keeps_the_number_of_a_status() -> None:
    assert [(value, str(label)) for value, label in TaskStatus.choices] == [
        (0, "pending"),
        (1, "running"),
        (2, "failed"),
        (3, "paused"),
    ]
    assert TaskStatus.names == ["PENDING", "RUNNING", "FAILED", "PAUSED"]


def test_the_history_keeps_the_number_of_an_outcome() -> None:
    assert [(value, str(label)) for value, label in RunOutcome.choices] == [
        (0, "done"),
        (1, "rescheduled"),
        (2, "retried"),
        (3, "failed"),
        (4, "cancelled"),
        (5, "lost"),
        (6, "expired"),
    ]
    assert RunOutcome.names == ["DONE", "RESCHEDULED", "RETRIED", "FAILED", "CANCELLED", "LOST", "EXPIRED"]


@pytest.mark.parametrize(
    ("states", "values"),
    [
        (NextState, ["gone", "again", "recur", "retry", "failed", "rescued", "released"]),
        (IfExists, ["replace", "keep", "raise", "earliest", "latest"]),
        (AddAction, ["created", "replaced", "kept", "deferred", "filtered"]),
        (CancelResult, ["cancelled", "stopping", "missing"]),
        (KeepHistory, ["all", "failures", "none"]),
    ],
)
def test_callers_write_and_compare_these_strings(states: type[StrEnum], values: list[str]) -> None:
    assert [state.value for state in states] == values
    assert [state.name.lower() for state in states] == values


def test_a_type_checker_knows_what_may_be_written_for_if_exists() -> None:
    assert get_args(IfExistsName) == tuple(IfExists)

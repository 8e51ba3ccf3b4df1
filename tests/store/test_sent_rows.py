"""Rows that are sent together: a column whose values differ travels in another way than one whose values are alike."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import IfExists, NextState, RunOutcome
from django_delayed_tasks.store.schedules.add_many import add_many
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.validation import Schedule
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, NOW

pytestmark = pytest.mark.usefixtures("live_db", "rows_sent")

FIRST = datetime(1000, 1, 3, tzinfo=UTC)
LAST = datetime(9999, 12, 29, 23, 59, 59, 999999, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
Row = dict[str, Any]

TASKS: list[Row] = [
    {
        "biz_num": "1", "biz_ext": '{"a":[1,"é"]}', "queue": "mail", "priority": 100,
        "trigger_text": "Interval(hours=1)", "expires_at": LAST, "once": None, "when": NOW, "claim_at": NOW + SECOND,
    },
    {
        "biz_num": "2 \\ ' \" 支付 😀", "biz_ext": None, "queue": "post office", "priority": -100, "trigger_text": None,
        "expires_at": None, "once": True, "when": FIRST, "claim_at": None,
    },
    {
        "biz_num": "3", "biz_ext": '"a text"', "queue": "支付", "priority": 0, "trigger_text": "Cron('0 * * * *')",
        "expires_at": NOW + DAY, "once": None, "when": LAST - DAY, "claim_at": LAST,
    },
]  # fmt: skip
"""Each column has another value in each row, or as many as it can have."""
ENDS: list[Row] = [
    {
        "outcome": RunOutcome.DONE, "started": NOW, "finished": NOW + SECOND, "result": '{"a":1.5}', "error": "",
        "stood_for": NOW - DAY,
    },
    {
        "outcome": RunOutcome.CANCELLED, "started": None, "finished": NOW + DAY, "result": None,
        "error": "支付 \\ ' \" 😀", "stood_for": None,
    },
    {
        "outcome": RunOutcome.EXPIRED, "started": FIRST, "finished": LAST, "result": '"a text"', "error": "late",
        "stood_for": LAST,
    },
]  # fmt: skip


def mixtures(rows: list[Row]) -> list[Any]:
    """All rows; rows that differ in one column alone; and rows that are alike."""
    one_column = [pytest.param([rows[0] | {column: row[column]} for row in rows], id=column) for column in rows[0]]
    alike = [pytest.param([row] * len(rows), id=f"like the {number}.") for number, row in enumerate(rows, 1)]
    return [pytest.param(rows, id="all columns"), *one_column, *alike]


@pytest.mark.parametrize("rows", mixtures(TASKS))
@pytest.mark.parametrize("if_exists", [IfExists.REPLACE, IfExists.KEEP, IfExists.RAISE])
def test_tasks_are_written_as_they_were_given(if_exists: IfExists, rows: list[Row]) -> None:
    numbered = [row | {"biz_num": f"{number} {row['biz_num']}"} for number, row in enumerate(rows)]
    schedules = [Schedule(biz_code=f"code {row['biz_num'][0]}", **row) for row in numbered]
    assert add_many(ALIAS, schedules, if_exists, 100) == len(rows)

    found = Task.objects.order_by("biz_num")
    assert [written(task) for task in found] == [row | {"claim_at": row["claim_at"] or row["when"]} for row in numbered]
    assert [task.biz_code for task in found] == [schedule.biz_code for schedule in schedules]


def written(task: Task) -> Row:
    """What was given for this row."""
    is_late = task.claim_at == task.create_time
    return {
        "biz_num": task.biz_num, "biz_ext": None if task.biz_ext is None else json_of(task.biz_ext),
        "queue": task.queue, "priority": task.priority, "trigger_text": task.trigger_text,
        "expires_at": task.expires_at, "once": task.once, "when": task.when,
        "claim_at": task.when if is_late else task.claim_at,
    }  # fmt: skip


def json_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("rows", mixtures(ENDS))
def test_ends_are_written_as_they_were_settled(rows: list[Row]) -> None:
    for number in range(len(rows)):
        verbs.add(str(number))
    runs = sorted(verbs.claim(), key=lambda run: run.biz_num)
    ends = [Settlement(run.claim, then=NextState.GONE, **row) for run, row in zip(runs, rows, strict=True)]
    assert set(verbs.settle(*ends).values()) == {NextState.GONE}

    for run, row in zip(runs, rows, strict=True):
        found = TaskRun.objects.get(biz_code=CODE, biz_num=run.biz_num)
        result = None if found.result is None else json_of(found.result)
        assert row == {
            "outcome": found.outcome, "started": found.started, "finished": found.finished, "result": result,
            "error": found.error, "stood_for": None if found.when == run.when else found.when,
        }  # fmt: skip
        assert (found.task_id, found.version, found.executor, found.attempt) == (*run.claim, 1)

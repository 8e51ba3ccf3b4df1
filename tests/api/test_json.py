"""Data come back as they were given, by every way that they take through the tables."""

import json
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.models import TaskRun
from tests.store import verbs

pytestmark = pytest.mark.per_database


def nested(depth: int) -> Any:
    value: Any = None
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


VALUES = [
    None, True, False, 0, -1, 1.5, 0.1, -1e-7, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, [2**64 - 1, -(2**63)],
    "", "text", "null", "0", "é漢\U0001f600", "\\u0000", "a\\\\u0000", "\\", '"', "'", "%s %(x)s %% {}",
    "\x01\x1f\x7f\u2028\r\n\t",
    "9" * 40, "x" * 60_000, [], {}, [None], [[], {}, [[]]], {"": ""}, {"a b": {"é": [1, "2", None, True, {"c": 0.5}]}},
    {"B": 1, "a": 2, "AA": 3, "b": 4}, nested(31), [[1]] * 100, {"$[0]": "$.a", "key\"'\\": 1},
]  # fmt: skip
JSON = pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:30])


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types: True is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@JSON
def test_from_the_caller_to_the_run(db: None, value: Any) -> None:
    """Add it alone, in bulk, over another one, and during a run."""
    api.add_tasks([verbs.task("many", biz_ext=value), verbs.task("other", biz_ext="other"), verbs.task("deferred")])
    verbs.settle(*(verbs.retry(run) for run in verbs.claim() if run.biz_num != "deferred"))
    deferred_run = verbs.present("deferred")
    verbs.add("one", biz_ext=value)
    verbs.add("other", biz_ext=value)
    verbs.add("deferred", biz_ext=value)
    api.reschedule_task(verbs.CODE, "many", None)
    assert same(verbs.present("deferred").deferred_biz_ext, value)
    assert all(same(verbs.present(num).biz_ext, value) for num in ("one", "many", "other"))
    assert {run.biz_num for run in verbs.claim() if same(run.biz_ext, value)} == {"one", "many", "other"}
    assert deferred_run.biz_ext is None


@JSON
def test_from_the_run_to_the_next_and_to_the_history(db: None, value: Any) -> None:
    for num in ("again", "deferred", "result"):
        verbs.add(num)
    again, deferred, result = sorted(verbs.claim(), key=str)
    verbs.add("deferred", biz_ext=value)
    verbs.settle(
        verbs.again(again, verbs.HOUR * 0, value),
        verbs.done(deferred),
        verbs.done(result, result=json.dumps(value, ensure_ascii=False)),
    )
    assert {run.biz_num for run in verbs.claim() if same(run.biz_ext, value)} == {"again", "deferred"}
    assert same(TaskRun.objects.get(biz_num="result").result, value)


def test_tuples_become_lists(db: None) -> None:
    verbs.add(biz_ext={"pair": (1, 2)})
    assert verbs.present().biz_ext == {"pair": [1, 2]}

"""What the history says of a run, and how it is purged."""

import json
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settle import settle_run
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, EXECUTOR, HOUR, NOW

SECOND = timedelta(seconds=1)


def recorded(run: TaskRun) -> dict[str, Any]:
    return {field.attname: getattr(run, field.attname) for field in TaskRun._meta.fields if field.attname != "id"}


def identity_of(result: Any, version: int, attempt: int) -> dict[str, Any]:
    return {
        "task_id": result.task_id, "version": version, "biz_code": CODE, "biz_num": "1", "when": NOW - HOUR,
        "attempt": attempt, "exception": None, "biz_ext": None,
    }  # fmt: skip


def test_a_run(db: None, frozen: None) -> None:
    result = verbs.add(when=NOW - HOUR)
    verbs.settle(verbs.retry(verbs.claim_one(), timedelta()))
    run = verbs.claim_one()
    verbs.settle(verbs.done(run, started=NOW + SECOND, finished=NOW + 2 * SECOND, result='{"sent": 3}'))
    assert recorded(TaskRun.objects.latest("id")) == identity_of(result, 2, 2) | {
        "outcome": RunOutcome.DONE, "executor": EXECUTOR, "started": NOW + SECOND, "finished": NOW + 2 * SECOND,
        "result": {"sent": 3}, "error": "",
    }  # fmt: skip


def test_a_failure(db: None, frozen: None) -> None:
    error = "Traceback …\n  File \"it's\", line 1\r\n\tKeyError: '\\u0000 %s \U0001f600'\x07"
    result = verbs.add(when=NOW - HOUR)
    verbs.settle(verbs.failed(verbs.claim_one(), error))
    assert recorded(TaskRun.objects.get()) == identity_of(result, 1, 1) | {
        "outcome": RunOutcome.FAILED, "executor": EXECUTOR, "started": None, "finished": NOW, "result": None,
        "error": error,
    }  # fmt: skip
    assert verbs.present().last_error == error


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"started": NOW + SECOND, "finished": NOW + 2 * SECOND, "result": '{"sent": [3, null]}'},
        {"error": 'it\'s "so" 100 %', "outcome": RunOutcome.FAILED},
        {"stood_for": NOW - 3 * HOUR},
    ],
)
def test_a_run_settled_in_its_own_transaction_leaves_the_same(db: None, frozen: None, fields: dict[str, Any]) -> None:
    verbs.add("alone", NOW - HOUR)
    verbs.add("other", NOW - HOUR)
    alone, other = sorted(verbs.claim(), key=str)
    for run in (alone, other):
        fields = {"started": NOW, "finished": NOW} | fields
        settlement = verbs.done(run)._replace(**fields)
        if run is alone:
            assert settle_run(ALIAS, run, settlement)
        else:
            verbs.settle(settlement)
    rows = [recorded(TaskRun.objects.get(biz_num=num)) for num in ("alone", "other")]
    assert {name for name in rows[0] if rows[0][name] != rows[1][name]} == {"task_id", "biz_num"}
    assert not Task.objects.exists()


def test_what_happened_to_a_task_meanwhile_is_left_to_the_usual_settlement(db: None, frozen: None) -> None:
    verbs.add()
    run = verbs.claim_one()
    verbs.add(when=HOUR)
    assert not settle_run(ALIAS, run, verbs.done(run))
    assert not settle_run(ALIAS, run, verbs.retry(run))
    assert not TaskRun.objects.exists()
    verbs.settle(verbs.done(run))
    assert verbs.present().when == NOW + HOUR


def test_a_run_whose_claim_is_gone_settles_nothing(db: None, frozen: None) -> None:
    verbs.add()
    run = verbs.claim_one()
    verbs.settle(verbs.released(run))
    assert not settle_run(ALIAS, run, verbs.done(run))
    assert verbs.present().status == TaskStatus.PENDING


def test_runs_of_one_batch(db: None, frozen: None) -> None:
    """Results and errors of every kind, among runs that have none."""
    errors = [
        "",
        "NULL",
        "null",
        '"',
        "\\",
        '\\"',
        "{a,b}",
        "it's, or not",
        " ",
        "%s {0}",
        "\n",
        "\u65e5\u672c \U0001f600",
    ]
    for number, _ in enumerate(errors):
        verbs.add(str(number), NOW - HOUR)
    runs = {int(run.biz_num): run for run in verbs.claim()}
    verbs.settle(*(
        verbs.done(
            runs[number], started=NOW + number * SECOND / 7, finished=NOW + number * SECOND,
            result=json.dumps({"text": error}) if number % 2 else None, error=error,
        ) for number, error in enumerate(errors)
    ))  # fmt: skip
    for number, error in enumerate(errors):
        run = TaskRun.objects.get(biz_num=str(number))
        assert (run.error, run.result) == (error, {"text": error} if number % 2 else None)
        assert (run.started, run.finished) == (NOW + number * SECOND / 7, NOW + number * SECOND)


def test_a_task_that_was_cancelled_while_it_waited(db: None, frozen: None) -> None:
    result = verbs.add(when=NOW - HOUR)
    api.cancel_task(CODE, "1")
    assert recorded(TaskRun.objects.get()) == identity_of(result, 0, 0) | {
        "outcome": RunOutcome.CANCELLED, "executor": None, "started": None, "finished": NOW, "result": None,
        "error": "",
    }  # fmt: skip


@pytest.mark.parametrize("how", ["together", "alone"])
def test_moments_of_a_batch_are_its_own(db: None, frozen: None, how: str) -> None:
    """Some runs of a batch know when they started, others do not."""
    api.add_tasks([verbs.task(num) for num in "ab"])
    a, b = sorted(verbs.claim(), key=str)
    batch = [verbs.done(a, started=NOW - HOUR, finished=NOW - SECOND), verbs.done(b)]
    for part in [batch] if how == "together" else [batch[:1], batch[1:]]:
        verbs.settle(*part)
    found = TaskRun.objects.order_by("biz_num").values_list("started", "finished")
    assert list(found) == [(NOW - HOUR, NOW - SECOND), (None, NOW)]


@pytest.mark.parametrize("error", ["x" * 200_000, "é\U0001f600" * 10_000])
def test_a_long_error(db: None, error: str) -> None:
    verbs.add()
    verbs.settle(verbs.failed(verbs.claim_one(), error))
    assert TaskRun.objects.get().error == verbs.present().last_error == error


@pytest.mark.parametrize("how", ["together", "alone"])
def test_data_and_exceptions_are_kept_if_they_are_wanted(db: None, how: str) -> None:
    api.add_tasks([verbs.task(num, biz_ext={"num": num, "é": [1.5, None]}) for num in "abc"])
    a, b, c = sorted(verbs.claim(), key=str)
    batch = [
        verbs.done(a, keep_data=True),
        verbs.done(b),
        verbs.retry(c, error="x")._replace(exception=KeyError("x")),
    ]
    for part in [batch] if how == "together" else [[one] for one in batch]:
        verbs.settle(*part)
    found = TaskRun.objects.order_by("biz_num").values_list("biz_ext", "exception")
    assert list(found) == [({"num": "a", "é": [1.5, None]}, None), (None, None), (None, "builtins.KeyError")]


@pytest.mark.per_database
@pytest.mark.parametrize("how", ["together", "alone"])
def test_small_data_of_a_failed_run_are_kept_unless_the_handler_says_no(db: None, how: str) -> None:
    """With which input did it fail? The task itself may have ended well since, or have other data."""
    size = {"a": 1022, "b": 1023}  # with their quotes, one byte more than is kept
    api.add_tasks([verbs.task(num, biz_ext="é" + "x" * (size.get(num, 3) - 2)) for num in "abcdefg"])
    a, b, c, d, e, f, g = sorted(verbs.claim(), key=str)
    batch = [
        verbs.failed(a, "x")._replace(keep_data=None),
        verbs.failed(b, "x")._replace(keep_data=None),
        verbs.retry(c, error="x")._replace(keep_data=None),
        verbs.failed(d, "x")._replace(keep_data=False),
        verbs.failed(e, "x")._replace(keep_data=True),
        verbs.done(f, keep_data=None),
        verbs.again(g, NOW + HOUR)._replace(keep_data=None),
    ]
    for part in [batch] if how == "together" else [[one] for one in batch]:
        verbs.settle(*part)
    kept = TaskRun.objects.filter(biz_ext__isnull=False).order_by("biz_num")
    assert [(run.biz_num, len(run.biz_ext.encode())) for run in kept] == [("a", 1022), ("c", 3), ("e", 3)]


@pytest.mark.parametrize(("size", "is_kept"), [(1022, True), (1023, False)])
def test_an_atomic_run_that_failed_keeps_small_data(db: None, size: int, is_kept: bool) -> None:
    verbs.add(biz_ext="x" * size)
    run = verbs.claim_one()
    cancelled = verbs.done(run, finished=NOW, keep_data=None)._replace(outcome=RunOutcome.CANCELLED)
    assert settle_run(verbs.ALIAS, run, cancelled)
    assert (TaskRun.objects.get().biz_ext is not None) == is_kept


def test_an_atomic_run_keeps_the_data_too(db: None) -> None:
    verbs.add(biz_ext=[{"é": 1.5}])
    run = verbs.claim_one()
    assert settle_run(verbs.ALIAS, run, verbs.done(run, started=NOW, finished=NOW, keep_data=True))
    assert TaskRun.objects.get().biz_ext == [{"é": 1.5}]


def test_the_data_of_what_is_cancelled_are_kept(db: None) -> None:
    for num in "ab":
        verbs.add(num, HOUR, biz_ext={"num": num})
    api.cancel_task(CODE, "a")
    api.delete_tasks(CODE, "b")
    assert list(TaskRun.objects.order_by("biz_num").values_list("biz_ext", flat=True)) == [{"num": "a"}, {"num": "b"}]


def test_the_name_of_an_exception_that_is_too_long(db: None) -> None:
    verbs.add()
    long = type("X" * 300, (Exception,), {})
    verbs.settle(verbs.failed(verbs.claim_one())._replace(exception=long()))
    assert TaskRun.objects.get().exception == f"{__name__}.{'X' * 300}"[:255]

"""Any value given to the API or returned by a handler is kept as it was, or is a clear error and writes nothing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.running.deciding import RaisedError, decide
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.outcomes import Done, Fail, Reschedule, Retry
from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.settling.settle import settle
from tests.executor.parts import claim_one

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 5, 17, 9, 30, tzinfo=UTC)


class Rude:
    """A value that answers every question with an error."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __hash__ = __eq__ = __bool__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


TEXTS = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(
    [
        "",
        "\0",
        "\ud800",
        "\udfff\ud800",
        "x" * 50,
        "x" * 51,
        "x" * 255,
        "x" * 256,
        "\u202e",
        " a",
        "a\n",
        "__class__",
        "os.system",
    ]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**400, float("nan")])
ODDITIES = (
    st.builds(Rude) | st.binary(max_size=3) | st.datetimes() | st.builds(nested, st.sampled_from([31, 32, 100_000]))
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
ANYTHING = st.recursive(
    SCALARS | ODDITIES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS | TEXTS, inner, max_size=3) | st.tuples(inner),
    max_leaves=8,
)
MOMENTS = st.datetimes(timezones=st.none() | st.just(UTC)) | st.timedeltas() | st.none()
FIELDS = {
    "biz_code": TEXTS | ANYTHING,
    "biz_num": TEXTS | ANYTHING,
    "when": MOMENTS | ANYTHING,
    "biz_ext": ANYTHING,
    "queue": TEXTS | ANYTHING,
    "priority": st.integers(-200, 200) | ANYTHING,
}
QUICKLY = settings(
    derandomize=True, max_examples=120, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def rows() -> tuple[int, int]:
    """Return how many tasks and runs there are, after reading each of them."""
    return len(list(api.get_tasks_by_code())), len(list(api.get_runs()))


def answer_of(call: Callable[[], Any]) -> Any:
    """Return what the call returned, or the error of this library that it raised; let any other error through."""
    try:
        return call()
    except TaskException as error:
        if not str(error):
            raise
        return error


@given(st.fixed_dictionaries({}, optional=FIELDS), st.sampled_from(list(IfExists)))
@QUICKLY
def test_adding(odd: dict[str, Any], if_exists: IfExists) -> None:
    before = rows()
    with transaction.atomic():
        fields = {"biz_code": "code", "biz_num": "1", **odd}
        result = answer_of(lambda: api.add_task(Task(**fields), if_exists=if_exists))
        if isinstance(result, TaskException):
            assert rows() == before
        else:
            kept = Task.objects.get(pk=result.task_id)
            assert (kept.biz_code, kept.biz_num) == (fields["biz_code"], fields["biz_num"])
        transaction.set_rollback(True)


@given(TEXTS | ANYTHING, TEXTS | ANYTHING, MOMENTS | ANYTHING)
@QUICKLY
def test_other_calls(biz_code: Any, biz_num: Any, when: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: api.cancel_task(biz_code, biz_num),
        lambda: api.reschedule_task(biz_code, biz_num, when),
        lambda: api.delete_tasks(biz_code, biz_num),
        lambda: list(api.get_tasks_by_code(biz_code, biz_num)),
        lambda: list(api.get_runs(biz_code, biz_num)),
    ]
    for call in calls:
        answer_of(call)


OUTCOMES = (
    ANYTHING
    | st.builds(Done, ANYTHING)
    | st.builds(Reschedule, MOMENTS | ANYTHING, ANYTHING)
    | st.builds(Retry, MOMENTS | ANYTHING, TEXTS)
    | st.builds(Fail, TEXTS | ANYTHING)
    | st.builds(RaisedError, st.builds(ValueError), TEXTS)
)


class Handler(TaskHandler):
    biz_code = "code"


@given(OUTCOMES)
@QUICKLY
def test_what_a_handler_returns(outcome: Any) -> None:
    """It is settled, whatever it is: as it says, or as an attempt that failed."""
    with transaction.atomic():
        task = claim_one()
        settlement = decide(task, Handler(), outcome, NOW, NOW + timedelta(seconds=1))
        assert settle("default", [settlement]).became == {task.claim: settlement.then}
        assert len(list(TaskRun.objects.all())) == 1
        transaction.set_rollback(True)

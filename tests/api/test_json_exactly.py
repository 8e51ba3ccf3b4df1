"""JSON that is accepted comes back equal and of the same types, by every way, on every database."""

import sys
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.executor.running.deciding import decide
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.outcomes import Done, Reschedule
from django_delayed_tasks.store.validation import valid_json
from tests.store import verbs
from tests.store.verbs import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]
FLOATS = [
    1e16, 1e17, 1e20, 1e22, 2.0**64, -1e22, 1e308, sys.float_info.max, 5e-324, -5e-324, 1e-5, 1.5e-300, -0.0, 0.0, 1.0,
    100.0, 0.1, 1 / 3, 123456789012345680.0, 10.0**15,
]  # fmt: skip
INTS = [1, 0, 10**15, 10**16, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1]
TEXTS = ["1e+22", '"1e+22', '\\"1e-7', "\\u0000", "1e+22\\", "\x01", "é漢\U0001f600", "$[0]", "%s"]
SPECIAL = [*FLOATS, *INTS, *TEXTS, {"1e+22": 1e22}, {"a\\": 1e-7, "b": "1e-7"}, [[1e22, "1e+22"], 1e-7]]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from([*FLOATS, *INTS, *TEXTS])
)
VALUES = st.recursive(SCALARS, lambda one: st.lists(one, max_size=4) | st.dictionaries(TEXT, one, max_size=4))
SOME = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types throughout: 1 is neither 1.0 nor True."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


class Handler(TaskHandler):
    biz_code = verbs.CODE

    def handle(self, task: Any) -> None: ...


def through_tasks(value: Any) -> list[Any]:
    """Return what the value becomes on every way through a task, from caller to handler to handler to history."""
    verbs.add("one", biz_ext=value)
    api.add_tasks([verbs.task("many", biz_ext=value), verbs.task("deferred")])
    runs = {run.biz_num: run for run in verbs.claim()}
    verbs.add("deferred", biz_ext=value)
    back: list[Any] = [runs["one"].biz_ext, runs["many"].biz_ext, verbs.present("deferred").deferred_biz_ext]
    outcomes = {"one": Reschedule(timedelta(), back[0]), "many": Done(back[1]), "deferred": None}
    verbs.settle(*(decide(runs[num], Handler(), outcome, NOW, NOW) for num, outcome in outcomes.items()))
    again = {run.biz_num: run.biz_ext for run in verbs.claim()}
    return [
        *back,
        again["one"],
        again["deferred"],
        verbs.present("one").biz_ext,
        TaskRun.objects.get(biz_num="many").result,
    ]


def through_resources(value: Any) -> list[Any]:
    """Return what the value becomes as a payload of a pool, and as the state of a mutex."""
    name = uuid4().hex
    pool = Pool(name)
    pool.add("a", value)
    with pool.lease(ttl=600) as leased:
        payload = leased.payload
    with mutex(name, ttl=600) as lease:
        lease.state["x"] = value
    with mutex(name, ttl=600) as lease:
        return [payload, lease.state["x"], pool.resources().get().payload]


@given(VALUES)
@SOME
def test_through_tasks(value: Any) -> None:
    with transaction.atomic():
        assert all(same(back, value) for back in through_tasks(value))
        transaction.set_rollback(True)


@pytest.mark.parametrize("value", SPECIAL, ids=ascii)
def test_the_special_ones_through_tasks(value: Any) -> None:
    assert all(same(back, value) for back in through_tasks(value))


@given(VALUES)
@SOME
def test_through_resources(value: Any) -> None:
    assert all(same(back, value) for back in through_resources(value))


def test_the_special_ones_through_resources() -> None:
    assert all(same(back, SPECIAL) for back in through_resources(SPECIAL))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**64, "beyond 64 bits"), (-(2**63) - 1, "beyond 64 bits"), ([{"a": 10**400}], "beyond 64 bits"),
        (float("nan"), "not JSON"), ([float("inf")], "not JSON"), ("\0", "NUL"), ({"\0": 1}, "NUL"),
        ("\ud800", "lone surrogate"), ({"a": ["\udfff\ud800"]}, "lone surrogate"), ({1: "a"}, "not a str, 1"),
        ([{"x": {None: 1}}], "not a str, None"), ({True: 1}, "not a str, True"), ({1.5: 0}, r"not a str, 1\.5"),
        ({"a": 1, "b": 2**64}, "beyond 64 bits"), ({"a": "\0"}, "NUL"),
    ],
)  # fmt: skip
def test_refused_when_it_is_added(value: Any, problem: str) -> None:
    with pytest.raises(InvalidTask, match=problem):
        verbs.add(biz_ext=value)
    with pytest.raises(InvalidTask, match=problem):
        api.add_tasks([verbs.task("good"), verbs.task("bad", biz_ext=value)])
    with pytest.raises(InvalidTask, match=problem):
        Pool("p").add("a", value)
    assert not Task.objects.exists()


@pytest.mark.parametrize("number", [1e308, 5e-324, -1.7e-300])
def test_what_is_read_is_no_longer_than_the_limit(number: float) -> None:
    """PostgreSQL gives back 300 digits for each of these: a claim of 300 tasks is not to need gigabytes."""
    with pytest.raises(InvalidTask, match="bytes of JSON; 65536 at most"):
        verbs.add(biz_ext=[number] * 9000)
    verbs.add(biz_ext=[number] * 200)
    [run] = verbs.claim()
    assert len(run._data) <= len(valid_json([number] * 200, 65536) or "") + 2 * 200  # a space after each comma
    assert same(run.biz_ext, [number] * 200)

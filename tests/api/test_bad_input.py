"""Bad input of every public call: an error that names the field and the value, and nothing written."""

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.test import override_settings

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import NUM_LENGTH, Task
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

NOT_TEXT = [None, 5, b"a", ["a"]]
NOT_NUMBER = [None, True, 1.5, Decimal(1), b"a", ["a"], 10**NUM_LENGTH, 10**5000]
UNKEPT = ["a\0b", "\ud800", "a\udfff"]
BAD_TEXT = [*NOT_TEXT, *UNKEPT, "", " ", " a", "a ", "\ta", "a\n", "a\u2003"]


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

BAD: dict[str, list[Any]] = {
    "biz_code": [*BAD_TEXT, "x" * 51],
    "biz_num": [*NOT_NUMBER, *BAD_TEXT[len(NOT_TEXT) :], "x" * 256, "\U0001f600" * 256],
    "queue": [5, b"a", ["a"], *UNKEPT, " ", " a", "a ", "x" * 51],
    "priority": [-101, 101, 10**30, 1.0, "1", True, [1]],
    "when": [
        5, 0.5, float("nan"), "2031-01-01", "", date(2031, 1, 1), datetime(2031, 1, 1), [None],  # noqa: DTZ001
        datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(999, 12, 31, tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), timedelta.max, timedelta.min,
        timedelta(days=36_601),
    ],
    "biz_ext": [
        object(), {1, 2}, b"a", Decimal(1), datetime(2031, 1, 1, tzinfo=UTC), {(1, 2): 3}, CIRCLE, float("nan"),
        [float("inf")], {"a": -float("inf")}, "\0", "a\\\0", ["x", {"a": "b\0c"}], {"a\0": 1}, "\ud800",
        {"a": ["\udfff"]}, {"\ud800": 1}, 2**64, [-(2**63) - 1], {"a": 10**400}, nested(32), nested(500),
        nested(100_000), "x" * 65_535,
        ["é" * 32_768],
    ],
}  # fmt: skip


def cases(of: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(field, value, id=f"{field} {type(value).__name__} {i}")
        for field, values in of.items()
        for i, value in enumerate(values)
    ]


def refused(call: Callable[[], object], field: str, value: Any) -> str:
    """The message of the error, after a look at the database."""
    verbs.add("there", HOUR, biz_ext="old")
    before = list(Task.objects.values())
    with pytest.raises(InvalidTask) as caught:
        call()
    assert list(Task.objects.values()) == before
    assert caught.value.field == field
    assert caught.value.value is value
    assert re.match(rf"{field}(\[.+\])*=", str(caught.value))
    return str(caught.value)


def bad_task(field: str, value: Any) -> Task:
    return Task(**{"biz_code": CODE, "biz_num": "there", field: value})


@pytest.mark.parametrize(("field", "value"), cases(BAD))
def test_add_task(db: None, field: str, value: Any) -> None:
    refused(lambda: api.add_task(bad_task(field, value)), field, value)


@pytest.mark.parametrize(("field", "value"), cases({field: values[-2:] for field, values in BAD.items()}))
def test_add_tasks_writes_none_of_them(db: None, field: str, value: Any) -> None:
    tasks = [verbs.task("fine"), bad_task(field, value), verbs.task("also fine")]
    refused(lambda: api.add_tasks(tasks, batch_size=1), field, value)


IDENTITY = cases({"biz_code": BAD["biz_code"], "biz_num": BAD["biz_num"]})


@pytest.mark.parametrize(("field", "value"), IDENTITY)
def test_cancel_and_reschedule(db: None, field: str, value: Any) -> None:
    identity = {"biz_code": CODE, "biz_num": "there", field: value}
    refused(lambda: api.cancel_task(**identity), field, value)
    refused(lambda: api.reschedule_task(when=None, **identity), field, value)


@pytest.mark.parametrize(("field", "value"), cases({"when": BAD["when"]}))
def test_reschedule_to_no_time(db: None, field: str, value: Any) -> None:
    refused(lambda: api.reschedule_task(CODE, "there", value), field, value)


@pytest.mark.parametrize(("field", "value"), cases({"biz_code": BAD["biz_code"], "biz_num": [*NOT_TEXT, *UNKEPT, ""]}))
def test_delete_tasks(db: None, field: str, value: Any) -> None:
    arguments = {"biz_code": CODE, "biz_num": "there", field: value}
    refused(lambda: api.delete_tasks(**arguments), field, value)


WRONG_FRAGMENTS = {"biz_code": [*NOT_TEXT[1:], *UNKEPT], "biz_num": [*NOT_NUMBER[1:], *UNKEPT]}


@pytest.mark.parametrize(("field", "value"), cases(WRONG_FRAGMENTS))
def test_finding(db: None, field: str, value: Any) -> None:
    refused(lambda: list(api.get_tasks_by_code(**{field: value})), field, value)
    refused(lambda: list(api.get_runs(**{field: value})), field, value)


@pytest.mark.parametrize(("field", "value"), cases({"when": [*BAD["when"], timedelta(), HOUR]}))
def test_finding_at_no_time(db: None, field: str, value: Any) -> None:
    refused(lambda: list(api.get_tasks_by_code(when=value)), field, value)


@pytest.mark.parametrize("value", [None, "task", {"biz_code": CODE, "biz_num": "1"}, Task])
def test_no_task(db: None, value: Any) -> None:
    refused(lambda: api.add_task(value), "task", value)
    refused(lambda: api.add_tasks([verbs.task(), value]), "task", value)


@pytest.mark.parametrize("arguments", [("code", 1), ("code", "A-7", HOUR), ()])
def test_another_call_than_that_of_a_task(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"^add_task\(\) .*: write add_task\(Task\(biz_code=\.\.\., biz_num="):
        api.add_task(*arguments)


def test_an_error_inside_of_the_call_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(task: Any, once: bool) -> Any:
        raise TypeError("broken")

    monkeypatch.setattr(api, "accepted", broken)
    with pytest.raises(TypeError, match=r"^broken$"):
        api.add_task(verbs.task())


def test_one_task_for_a_call_that_takes_many(db: None) -> None:
    task = verbs.task()
    assert "use add_task(...), or pass a list" in refused(lambda: api.add_tasks(task), "tasks", task)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["REPLACE", "", "ignore", None, 5, ["replace"]])
def test_unknown_if_exists(db: None, value: Any) -> None:
    message = refused(lambda: api.add_task(verbs.task(), if_exists=value), "if_exists", value)
    assert "replace, keep, raise" in message
    refused(lambda: api.add_tasks([verbs.task()], if_exists=value), "if_exists", value)


@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None])
def test_batch_size(db: None, value: Any) -> None:
    refused(lambda: api.add_tasks([verbs.task()], batch_size=value), "batch_size", value)


TOO_LONG = (
    r"^biz_num='x{20,}.*…: is 300 characters long; 255 at most; pass its hash: "
    r"hashlib\.sha256\(num\.encode\(\)\)\.hexdigest\(\)$"
)


def test_the_message_shows_the_value_and_what_is_wrong_with_it(db: None) -> None:
    with pytest.raises(InvalidTask, match=TOO_LONG):
        verbs.add("x" * 300)
    with pytest.raises(
        InvalidTask, match=r"^when=datetime\.datetime\(2031, 1, 1, 0, 0\): is naive; .*make_aware.* timezone\.now"
    ):
        verbs.add(when=datetime(2031, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidTask, match=r"^priority=101: must be an int from -100 to 100$"):
        verbs.add(priority=101)


BIG = {f"field{number}": number for number in range(50)}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Decimal(1), "biz_ext=Decimal('1'): is not JSON; convert it first, as with str()"),
        ([math.nan], "biz_ext[0]=nan: is not JSON; pass None instead"),
        (
            {**BIG, "lines": [{"price": Decimal("1.5"), "more": "x" * 200}]},
            "biz_ext['lines'][0]['price']=Decimal('1.5'): is not JSON; convert it first, as with str()",
        ),
        ({**BIG, "at": ({"day": date(2031, 1, 1)},)}, "biz_ext['at'][0]['day']=datetime.date(2031, 1, 1): is not JSON"),
        ({**BIG, "a": {"b": ["ok", "no\0"]}}, "biz_ext['a']['b'][1]='no\\x00': contains a NUL character"),
        ({**BIG, "a": {"b": {"no\0": 1}}}, "biz_ext['a']['b']={'no\\x00': 1}: has the key 'no\\x00', which contains"),
        ({**BIG, "a": [2**64]}, f"biz_ext['a'][0]={2**64}: contains an integer beyond 64 bits"),
        ({**BIG, "a": {7: "x"}}, "biz_ext['a']={7: 'x'}: has a key that is not a str, 7"),
        (CIRCLE, "biz_ext=[[...]]: is nested deeper than 31 levels"),
    ],
)
def test_the_message_names_the_part_that_is_to_blame(db: None, value: Any, message: str) -> None:
    """Its first 80 characters would seldom show it."""
    assert refused(lambda: api.add_task(bad_task("biz_ext", value)), "biz_ext", value).startswith(message)


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        (Task(biz_code="a", biz_num="1"), "pass its pk"),
        (Task.objects.none(), "pass a list of what the task needs, such as the pks"),
        (b"a", "pass a text, as with .decode()"),
        (bytearray(b"a"), "pass a text, as with .decode()"),
        ({1, 2}, "convert it first, as with list()"),
        (BIG.keys(), "convert it first, as with list()"),
        (iter([1]), "convert it first, as with list()"),
        (date(2031, 1, 1), "pass its isoformat()"),
        (datetime(2031, 1, 1, tzinfo=UTC), "pass its isoformat()"),
        (UUID(int=1), "convert it first, as with str()"),
        (timedelta(1), "convert it first, as with str()"),
        (object(), "convert it first, as with str()"),
    ],
)
def test_the_message_says_how_to_convert_what_is_not_json(db: None, value: Any, cure: str) -> None:
    data = {"a": [value]}
    message = refused(lambda: api.add_task(bad_task("biz_ext", data)), "biz_ext", data)
    assert message.endswith(f": is not JSON; {cure}")


@override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True, "REDACT": ["secrets", "price"]})
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"lines": [{"price": Decimal(7)}]}, "biz_ext['lines'][0]['price']=********: is not JSON"),
        ({"secrets": {"s3cret": [Decimal(7)]}}, "biz_ext['secrets']=********: is not JSON"),
        ({"a": {"price": 7, 1: 1}}, "biz_ext['a']={'price': '********', 1: 1}: has a key that is not a str"),
    ],
)
def test_the_part_that_is_to_blame_may_be_hidden(db: None, value: Any, message: str) -> None:
    assert refused(lambda: api.add_task(bad_task("biz_ext", value)), "biz_ext", value).startswith(message)


def test_the_largest_data(db: None) -> None:
    """Bytes of JSON are counted, not characters; the setting is read at every call."""
    verbs.add(biz_ext="x" * 65_534)
    verbs.add(biz_ext="é" * 32_767)
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True, "MAX_BIZ_EXT_BYTES": 10}):
        verbs.add(biz_ext="x" * 8)
        with pytest.raises(InvalidTask, match="is 11 bytes of JSON; 10 at most"):
            verbs.add(biz_ext="x" * 9)


@pytest.mark.parametrize("values", [("code", "A-7"), ("code", "A-7", HOUR)])
def test_values_without_names(values: tuple[Any, ...]) -> None:
    """The first field of a model is its id."""
    for add in (api.add_task, lambda task: api.add_tasks([task])):
        with pytest.raises(InvalidTask, match=r"has values without names: write Task\(biz_code="):
            add(Task(*values))  # type: ignore[misc]

"""Hiding values by the names of their keys."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.outcomes import Done, Retry
from django_delayed_tasks.store.validation import valid_json
from django_delayed_tasks.support.redaction import MASK, MisplacedMask, numbered, redacted, restored, shown

NAMES = {"REDACT": ["token", "Card"]}
KEYS = st.sampled_from(["token", "TOKEN", "card", "name", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


def data_of(args: Any, **kwargs: Any) -> dict[str, Any]:
    """The data of a function's task."""
    return {"function": "shop.tasks.log_in", "args": args, "kwargs": kwargs}


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    with override_settings(DELAYED_TASKS=NAMES):
        yield


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ({"token": "s3cret", "name": "Ada"}, {"token": MASK, "name": "Ada"}),
        ({"TOKEN": 5, "cArD": None}, {"TOKEN": MASK, "cArD": MASK}),
        ({"a": [{"b": {"token": {"deep": "s3cret"}}}]}, {"a": [{"b": {"token": MASK}}]}),
        ({"tokens": 1, "my token": 2}, {"tokens": 1, "my token": 2}),
        (["token", "s3cret"], ["token", "s3cret"]),
        ("token", "token"),
        (None, None),
        (CIRCLE, [MASK]),
        (data_of(["Ada", "s3cret"], name=3, card=4), data_of(MASK, name=3, card=MASK)),
        (data_of([], name=3), data_of([], name=3)),
        ([data_of([1])], [data_of(MASK)]),
        ({"args": [2], "kwargs": {}}, {"args": MASK, "kwargs": {}}),
        ({"args": [2]}, {"args": [2]}),
    ],
)
def test_hidden(value: Any, seen: Any) -> None:
    assert redacted(value) == seen


def test_arguments_of_functions_get_their_values_back() -> None:
    value = data_of(["Ada", {"token": 5}], card=4, name=3)
    masked = numbered(value)
    assert masked == data_of(f"{MASK} 1", card=f"{MASK} 2", name=3)
    assert restored(masked, value) == value
    assert restored(data_of(["Eve"], card=f"{MASK} 2"), value) == data_of(["Eve"], card=4)
    for revealing in ({"args": f"{MASK} 1"}, data_of([], name=f"{MASK} 1")):
        with pytest.raises(MisplacedMask):
            restored(revealing, value)


def test_nothing_is_hidden_unless_asked_for() -> None:
    value = {"token": "s3cret"}
    with override_settings(DELAYED_TASKS={}):
        assert redacted(value) is value
        assert numbered(value) is value
        assert restored({"token": f"{MASK} 1"}, value) == {"token": f"{MASK} 1"}


@given(JSON)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_what_is_not_edited_comes_back(value: Any) -> None:
    assert restored(numbered(value), value) == value


def test_masks_may_be_moved_below_keys_that_hide() -> None:
    original = {"a": [{"token": "one"}, {"token": "two"}], "card": [1]}
    edited = {"a": [{"token": f"{MASK} 2"}], "card": {"old": f"{MASK} 3", "token": "new"}}
    assert restored(edited, original) == {"a": [{"token": "two"}], "card": {"old": [1], "token": "new"}}


@pytest.mark.parametrize(
    "edited",
    [
        {"name": f"{MASK} 1"},
        [f"{MASK} 1"],
        f"{MASK} 1",
        {"token": f"{MASK} 2"},
        {"token": f"{MASK} 0"},
        {"token": MASK},
    ],
)
def test_a_mask_anywhere_else_is_refused(edited: Any) -> None:
    """Else a person could have a hidden value shown by moving its mask, or store the mask in its place."""
    with pytest.raises(MisplacedMask, match="stands for a hidden value"):
        restored(edited, {"token": "s3cret"})


def test_messages_of_errors_do_not_show_it() -> None:
    for value, beginning in (
        ({"token": "s3cret", "bad": float("nan")}, "biz_ext['bad']=nan"),
        ({"token": "s3cret\0"}, "biz_ext['token']=********"),
        ({"token": "s3cret" * 20_000}, "biz_ext={'token': '********'}"),
    ):
        with pytest.raises(InvalidTask) as caught:
            valid_json(value, 1000)
        assert "s3cret" not in str(caught.value)
        assert str(caught.value).startswith(f"{beginning}: ")
        assert caught.value.value is value


SECRET = {"token": "s3cret"}


@dataclass
class Answer:
    token: str
    data: Any = None


class Pair(NamedTuple):
    token: str
    data: Any = None


def cyclic() -> list[Any]:
    made: list[Any] = []
    made += [made, made]
    return made


class Talkative:
    def __repr__(self) -> str:
        return f"Talkative({SECRET})"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([Done(SECRET)], "[Done(result={'token': '********'}, biz_ext=UNCHANGED)]"),
        (Retry(SECRET), "Retry(after={'token': '********'}, reason='')"),  # type: ignore[arg-type]
        ({"one": Done(SECRET)}, "{'one': Done(result={'token': '********'}, biz_ext=UNCHANGED)}"),
        (Answer("s3cret", SECRET), "Answer(token='********', data={'token': '********'})"),
        (Pair("s3cret", (SECRET,)), "Pair(token='********', data=[{'token': '********'}])"),
        (MappingProxyType(SECRET), "{'token': '********'}"),
        (deque([SECRET, b"x"]), "[{'token': '********'}, b'x']"),
        ({None: True, 1.5: {2}}, "{None: True, 1.5: [2]}"),
        ({("a", 1): "b"}, "{['a', 1]: 'b'}"),
        (cyclic(), "['********', '********']"),
        (Done, "<class 'django_delayed_tasks.outcomes.Done'>"),
    ],
)
def test_nor_is_it_shown_inside_of_anything(value: Any, text: str) -> None:
    assert shown(value, 200) == text


@pytest.mark.parametrize("value", [ValueError(SECRET), Talkative(), [Talkative()], {Talkative(): 1}, SECRET.items()])
def test_other_objects_are_shown_by_their_type(value: Any) -> None:
    assert "s3cret" not in shown(value, 200)
    assert " object at 0x" in shown(value, 200)


def test_outcomes_are_shown_without_it() -> None:
    assert shown(Done({"token": "s3cret"})) == "Done(result={'token': '********'}, biz_ext=UNCHANGED)"
    assert shown(["x" * 100]) == "['" + "x" * 77 + "…"

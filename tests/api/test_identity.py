"""An identity is equal to itself only, on every database."""

from typing import Any
from uuid import UUID

import pytest
from django.db.models import IntegerChoices, TextChoices
from django.utils.safestring import mark_safe

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask, TaskExists
from django_delayed_tasks.models import NUM_LENGTH, Task
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

pytestmark = pytest.mark.per_database

ALIKE = [
    "a", "A", "\uff41", "á", "a\u0301", "é", "e", "E", "e\u0301", "ß", "ss", "ẞ", "İ", "i", "\u0131", "1", "\uff11",
    "01", "1.0",
    "a b", "a  b", "a\u00a0b", "a\u2003b", "a\u200cb", "\U0001f600", "\U0001f601", "%", "_", "\\", "'", '"', "it''s",
    "it's", "--", "\\'", "NULL", "0", "-0", "\u034f", "\ufe0f",
]  # fmt: skip


def test_alike_is_not_equal(db: None) -> None:
    for i, num in enumerate(ALIKE):
        assert verbs.add(num, HOUR, biz_ext=i).action == "created"
    for i, num in enumerate(ALIKE):
        assert verbs.present(num).biz_ext == i
        assert verbs.add(num, HOUR, biz_ext=i, if_exists="keep").action == "kept"
        assert api.reschedule_task(CODE, num, 2 * HOUR)
    assert set(Task.objects.values_list("biz_num", "version")) == {(num, 1) for num in ALIKE}
    assert api.cancel_task(CODE, ALIKE[0]) == "cancelled"
    assert set(Task.objects.values_list("biz_num", flat=True)) == set(ALIKE[1:])


def test_alike_is_not_equal_in_bulk(db: None) -> None:
    assert api.add_tasks(verbs.task(num, biz_ext=num) for num in ALIKE) == len(ALIKE)
    assert api.add_tasks([verbs.task(num) for num in ALIKE], if_exists="keep") == 0
    assert dict(Task.objects.values_list("biz_num", "biz_ext")) == {num: num for num in ALIKE}
    api.cancel_task(CODE, "a")
    assert api.add_tasks([verbs.task("a")], if_exists="raise") == 1
    with pytest.raises(TaskExists, match="'e'"):
        api.add_tasks([verbs.task("e")], if_exists="raise")


def test_codes_are_as_exact(db: None) -> None:
    for code in ALIKE:
        assert verbs.add(biz_code=code).action == "created"
    runs = verbs.claim()
    assert {run.biz_code for run in runs} == set(ALIKE)
    verbs.settle(*map(verbs.done, runs))
    assert set(api.get_runs().values_list("biz_code", flat=True)) == set(ALIKE)


def test_excluded_codes_are_as_exact(db: None) -> None:
    for code in ("a", "A", "é", "e"):
        verbs.add(biz_code=code)
    assert {run.biz_code for run in verbs.claim(excluded=frozenset({"a", "e"}))} == {"A", "é"}


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", "漢"])
def test_the_longest(db: None, character: str) -> None:
    """Characters are counted."""
    code, num, queue = character * 50, character * NUM_LENGTH, character * 50
    verbs.add(num, biz_code=code, queue=queue)
    api.add_tasks([verbs.task(num, biz_code=code, queue=queue)])
    [run] = verbs.claim(queue=queue)
    assert (run.biz_code, run.biz_num, run.queue, run.version) == (code, num, queue, 2)
    verbs.settle(verbs.done(run))
    assert api.get_runs(code, num).count() == 1


class Kind(TextChoices):
    MAIL = "mail", "an e-mail"


def test_a_member_of_an_enumeration_is_its_value(db: None) -> None:
    verbs.add(Kind.MAIL, biz_code=Kind.MAIL, queue=Kind.MAIL)
    api.add_tasks([verbs.task("many", biz_code=Kind.MAIL)])
    assert verbs.present("mail", "mail").queue == "mail"
    assert api.reschedule_task(Kind.MAIL, Kind.MAIL, HOUR)
    assert api.get_tasks_by_code(Kind.MAIL, Kind.MAIL).get().biz_num == "mail"
    assert api.cancel_task(Kind.MAIL, Kind.MAIL) == "cancelled"
    assert api.delete_tasks(Kind.MAIL, "many") == 1


def test_a_safe_string_is_a_string(db: None) -> None:
    verbs.add(mark_safe("<b>"))
    assert verbs.present("<b>").biz_num == "<b>"


UUID_1 = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


class Level(IntegerChoices):
    HIGH = 3, "high"


AS_TEXT: list[tuple[Any, str]] = [
    (12, "12"), (0, "0"), (-7, "-7"), (10**NUM_LENGTH - 1, "9" * NUM_LENGTH), (Level.HIGH, "3"), (UUID_1, str(UUID_1)),
]  # fmt: skip


@pytest.mark.parametrize(("num", "text"), AS_TEXT)
def test_an_int_and_a_uuid_are_their_text(db: None, num: Any, text: str) -> None:
    assert verbs.add(num).action == "created"
    assert verbs.add(text).action == "replaced"
    assert api.add_tasks([verbs.task(num), verbs.task(text)]) == 1
    assert verbs.add(num, HOUR, "keep").action == "kept"
    with pytest.raises(TaskExists, match=f"'{text}'"):
        verbs.add(num, HOUR, "raise")
    assert Task.objects.get().biz_num == text
    assert api.get_tasks_by_code(CODE, num).get().biz_num == text
    assert api.reschedule_task(CODE, num, HOUR)
    assert api.pause_task(CODE, num)
    assert api.resume_task(CODE, num)
    assert api.cancel_task(CODE, num) == "cancelled"
    assert api.get_runs(CODE, num).get().biz_num == text


def test_an_int_is_done_once_and_forgotten(db: None) -> None:
    assert api.add_task(verbs.task(12), once=True).action == "created"
    verbs.settle(verbs.done(verbs.claim_one(), once=True))
    assert api.add_task(verbs.task("12"), once=True).action == "filtered"
    assert api.forget(CODE, 12)
    assert api.add_task(verbs.task(12), once=True).action == "created"


def test_deleting_by_an_int_is_refused_since_it_is_a_part_of_others(db: None) -> None:
    for num in ("12", "112", str(UUID_1)):
        verbs.add(num)
    with pytest.raises(InvalidTask, match=r"^biz_num=12: .* use the call for one task, or pass a str"):
        api.delete_tasks(CODE, 12)  # type: ignore[arg-type]
    assert Task.objects.count() == 3
    assert api.delete_tasks(CODE, UUID_1) == 1
    assert api.delete_tasks(CODE, "12") == 2

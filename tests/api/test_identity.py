"""An identity is equal to itself only, on every database."""

import pytest
from django.db.models import TextChoices
from django.utils.safestring import mark_safe

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Task
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

ALIKE = [
    "a", "A", "\uff41", "á", "a\u0301", "é", "e", "E", "e\u0301", "ß", "ss", "ẞ", "İ", "i", "\u0131", "1", "\uff11",
    "01", "1.0",
    "a b", "a  b", "a\u00a0b", "a\tb", "a\u200bb", "\U0001f600", "\U0001f601", "%", "_", "\\", "'", '"', "it''s",
    "it's", "--", "\\'", "NULL", "0", "-0", "\x7f", "\x01",
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
    code, num, queue = character * 50, character * 100, character * 50
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

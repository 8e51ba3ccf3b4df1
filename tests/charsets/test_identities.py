"""What was added keeps its bytes, and no other identity is taken for it, whatever the defaults of the database are."""

from functools import partial
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import NameInUse, TaskExists
from django_delayed_tasks.executor.membership.recurrences import Recurrences
from django_delayed_tasks.models import Executor, Recurrence, Task
from django_delayed_tasks.states import AddAction, CancelResult, IfExistsName
from django_delayed_tasks.store import executors
from django_delayed_tasks.triggers import Interval
from tests.charsets.texts import TEXTS, TWINS
from tests.executor.parts import drain, handler_of, registered
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

pytestmark = pytest.mark.usefixtures("whole")

EVERY_HOUR = Interval(hours=1)
CODES = [text for text in TEXTS if text.isprintable()]
"""Handlers have no others."""


def later(num: str, **fields: Any) -> Task:
    return verbs.task(num, HOUR, **fields)


def nums() -> list[str]:
    return sorted(Task.objects.values_list("biz_num", flat=True))


@pytest.mark.parametrize("if_exists", ["replace", "keep", "raise", "earliest"])
def test_bulk_calls_write_what_they_were_given(if_exists: IfExistsName) -> None:
    api.add_task(later("there already"))
    tasks = [later(text, biz_ext={text: [text]}) for text in TEXTS]
    assert api.add_tasks(tasks, if_exists=if_exists) == len(TEXTS)
    found = {task.biz_num: task.biz_ext for task in Task.objects.exclude(biz_num="there already")}
    assert found == {text: {text: [text]} for text in TEXTS}


@pytest.mark.parametrize("if_exists", ["replace", "keep", "raise", "earliest"])
def test_single_calls_write_what_they_were_given(if_exists: IfExistsName) -> None:
    for text in TEXTS:
        added = api.add_task(later(text, biz_ext={text: text}), if_exists=if_exists)
        assert added.action is AddAction.CREATED
    assert {task.biz_num: task.biz_ext for task in Task.objects.all()} == {text: {text: text} for text in TEXTS}


def test_what_exists_is_told_from_its_twin() -> None:
    for one, other in TWINS:
        api.add_task(later(one))
        assert api.add_tasks([later(other)], if_exists="raise") == 1
        for text in (one, other):
            with pytest.raises(TaskExists) as caught:
                api.add_tasks([later(text)], if_exists="raise")
            assert caught.value.biz_num == text
        assert api.cancel_task(CODE, one) is CancelResult.CANCELLED
        assert api.cancel_task(CODE, one) is CancelResult.MISSING
    assert nums() == sorted(other for _, other in TWINS)


def test_each_verb_finds_its_own() -> None:
    api.add_tasks(later(text) for text in TEXTS)
    for text in TEXTS:
        assert api.reschedule_task(CODE, text, 2 * HOUR)
        assert api.pause_task(CODE, text)
        assert api.resume_task(CODE, text)
        assert [task.biz_num for task in api.get_tasks_by_code(CODE, text) if task.biz_num == text] == [text]
        assert api.cancel_task(CODE, text) is CancelResult.CANCELLED
        assert [run.biz_num for run in api.get_runs(CODE, text) if run.biz_num == text] == [text]
    assert nums() == []


def test_the_longest_numbers_are_told_apart() -> None:
    """255 characters of four bytes each, which differ in the last one only."""
    handler_of(lambda task: None, code=CODE)
    one, other = "\U0001f600" * 254 + "\U0001f680", "\U0001f600" * 255
    assert api.add_tasks([verbs.task(one), later(other), later("\U0001f600")], once=True) == 3
    drain()
    assert nums() == ["\U0001f600", other]
    assert api.add_task(later(one), once=True).action is AddAction.FILTERED
    assert api.add_tasks([later(one), later(other)], once=True) == 1
    with pytest.raises(TaskExists):
        api.add_tasks([later(other)], if_exists="raise")
    assert api.reschedule_task(CODE, other, 2 * HOUR)
    assert api.cancel_task(CODE, one) is CancelResult.MISSING
    assert [run.biz_num for run in api.get_runs(CODE, "\U0001f680")] == [one]
    assert api.delete_tasks(CODE, other) == 1
    assert nums() == ["\U0001f600"]


def test_what_is_deleted_is_told_from_its_twin() -> None:
    for one, other in TWINS[:7]:
        if one.lower() == other.lower():  # which a fragment does not tell apart
            continue
        api.add_tasks([later(one), later(f"–{one}–"), later(other)])
        assert api.delete_tasks(CODE, one) == 2
        assert nums() == [other]
        api.cancel_task(CODE, other)


def test_what_was_done_once_is_told_from_its_twin() -> None:
    handler_of(lambda task: None, code=CODE)
    ones, others = zip(*TWINS, strict=True)
    assert api.add_tasks(map(verbs.task, ones), once=True) == len(TWINS)
    drain()
    assert api.add_tasks(map(later, TEXTS), once=True) == len(TWINS)
    assert nums() == sorted(others)
    for one, other in TWINS:
        assert api.add_task(later(one), once=True).action is AddAction.FILTERED
        assert not api.forget(CODE, other)
        assert api.forget(CODE, one)


def test_queues_are_told_apart() -> None:
    api.add_tasks(verbs.task(text, queue=text) for text in TEXTS)
    ran: list[Any] = []
    handler_of(lambda task: ran.append((task.biz_num, task.queue)), code=CODE)
    ones, others = zip(*TWINS, strict=True)
    for one in ones:
        assert api.pause_queue(one)
        assert not api.pause_queue(one)
    drain()
    assert sorted(ran) == sorted((other, other) for other in others)
    for one, other in TWINS:
        assert not api.resume_queue(other)
        assert api.resume_queue(one)
    drain(queues=others)
    assert len(ran) == len(TWINS)
    drain(queues=ones)
    assert sorted(ran) == sorted((text, text) for text in TEXTS)


def test_codes_are_told_apart() -> None:
    ran: list[tuple[str, str]] = []

    def note(text: str, task: Any) -> None:
        ran.append((text, task.biz_code))

    for text in CODES:
        handler_of(partial(note, text), code=text)
    api.add_tasks(verbs.task("1", biz_code=text) for text in CODES)
    drain()
    assert sorted(ran) == sorted((text, text) for text in CODES)


def test_handlers_that_recur_are_told_apart() -> None:
    for text in CODES:
        handler_of(lambda task: None, code=text, trigger=EVERY_HOUR, queue=text)
    Recurrences("default").declare()
    declared = [(text, "recurring", text) for text in CODES]
    assert sorted(Task.objects.values_list("biz_code", "biz_num", "queue")) == sorted(declared)
    assert sorted(Recurrence.objects.values_list("biz_code", flat=True)) == sorted(CODES)


def test_executors_are_told_apart() -> None:
    for text in TEXTS:
        registered(text, codes=(text,), queues=(text,))
        with pytest.raises(NameInUse, match="elsewhere"):
            registered(text)
    assert [(row.name, row.codes, row.queues) for row in Executor.objects.order_by("started_at")] == [
        (text, [text], [text]) for text in TEXTS
    ]
    assert {peer.queues for peer in executors.live("default")} == {frozenset([text]) for text in TEXTS}

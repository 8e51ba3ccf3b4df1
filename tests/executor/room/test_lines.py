"""Which of the tasks that wait for a thread is next."""

from dataclasses import replace

import pytest

from django_delayed_tasks.executor.room import lines as lines_module
from django_delayed_tasks.executor.room.claimer import Claimer, Demand, Kind
from django_delayed_tasks.executor.room.lines import Lines
from tests.executor.test_held import a_task

LIMITED = Claimer()
"""It lacks nothing."""


def lines_of(*waiting: tuple[str, int]) -> Lines:
    """Tasks that wait in this order, each with its code, "" for one without permits, and its priority."""
    lines = Lines(LIMITED)
    for number, (code, priority) in enumerate(waiting):
        lines.add([[replace(a_task(number), biz_code=code or "code", priority=priority)]], bool(code))
    return lines


def taken(lines: Lines) -> list[int]:
    """Take all; return their numbers."""
    return [lines.take()[0].id for _ in range(lines.waiting)]


def test_of_one_kind_alone() -> None:
    assert taken(lines_of(("a", 0), ("a", 0), ("a", 0))) == [0, 1, 2]
    assert taken(lines_of(("", 0), ("", 0), ("", 0))) == [0, 1, 2]


def test_lines_take_turns() -> None:
    """However many were claimed before in one of them."""
    assert taken(lines_of(*[("", 0)] * 5, ("a", 0), ("a", 0))) == [5, 0, 6, 1, 2, 3, 4]


def test_each_code_has_a_line_of_its_own() -> None:
    assert taken(lines_of(*[("", 0)] * 3, *[("a", 0)] * 3, *[("b", 0)] * 3)) == [3, 6, 0, 4, 7, 1, 5, 8, 2]


def test_a_higher_priority_comes_first_in_all_of_them() -> None:
    assert taken(lines_of(("", 0), ("", 0), ("a", 1), ("a", 0))) == [2, 0, 3, 1]
    assert taken(lines_of(("", 0), ("", 0), ("a", 0), ("a", 1), ("", 2))) == [2, 3, 0, 1, 4]


def test_a_line_is_as_urgent_as_the_most_urgent_task_in_it() -> None:
    assert taken(lines_of(*[("", 0)] * 2, ("", 10), ("", 0), *[("a", 5)] * 2)) == [0, 1, 2, 4, 5, 3]
    assert taken(lines_of(("", 0), ("", 4), ("", 10), ("", 6), ("", 0), ("a", 5))) == [0, 1, 2, 3, 5, 4]


def test_a_lower_priority_is_not_overtaken_by_what_is_queued_later() -> None:
    """Its permits would be held, and the lanes would claim nothing else, for as long as a flow of others went on."""
    assert taken(lines_of(("", 1), ("a", 0), ("a", 2), ("", 1), ("", 1))) == [0, 1, 2, 3, 4]
    assert taken(lines_of(("", 1), ("a", 0), ("b", 2), ("", 1))) == [0, 1, 2, 3]


def test_what_waits_is_counted() -> None:
    lines = lines_of(("", 0), ("a", 0), ("a", 0))
    assert (lines.waiting, lines.permitted, lines.unpermitted) == (3, 2, 1)
    taken(lines)
    assert (lines.waiting, lines.permitted, lines.unpermitted) == (0, 0, 0)


def test_a_thread_that_comes_second_takes_from_another_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one takes the last task without permits, without a lock, after this thread has chosen it."""
    lines = lines_of(("", 1), ("a", 0))
    of_others: list[int] = []

    def priority_of(waiting: lines_module.Waiting) -> int:
        if lines.unpermitted:
            of_others.append(lines._plain.popleft()[1][0].id)
        return waiting[1][0].priority

    monkeypatch.setattr(lines_module, "_priority", priority_of)
    assert (lines.take()[0].id, of_others) == (1, [0])
    assert lines.waiting == 0


def test_a_code_that_lacks_room_has_its_turn_too() -> None:
    """Its tasks are claimed one by one: if its line did not count, tasks without permits would start twice as often."""
    claimer = Claimer()
    claimer.lack((Demand(Kind.THREAD, 0, code="a"), Demand(Kind.THREAD, 0, code="b")), 1.0)
    lines = Lines(claimer)
    for number in range(4):
        lines.add([[a_task(number)]], False)
    codes: list[str] = []
    for number in range(6):
        lines.add([[replace(a_task(number), biz_code="ab"[number % 2])]], True)
        while lines.permitted:
            codes.append(lines.take()[0].biz_code)
    assert codes == ["a", "b", "code", "a", "b", "code", "a", "b"]

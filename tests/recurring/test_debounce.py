"""``if_exists="earliest"`` and ``"latest"``: of two schedules the earlier, or later, is kept."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Task, add_task, add_tasks
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import AddAction, IfExistsName, NextState, TaskStatus
from django_delayed_tasks.store.settling.settle import settle
from tests.executor.parts import claim
from tests.executor.runs import run_one
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db

MODES = pytest.mark.parametrize(("mode", "sign"), [("earliest", -1), ("latest", 1)])


def add(minute: float, mode: IfExistsName, ext: Any = None) -> AddAction:
    with frozen_at(NOON):
        return add_task(
            Task(biz_code="recurring", biz_num="1", when=NOON + minute * MINUTE, biz_ext=ext), if_exists=mode
        ).action


def stands() -> tuple[float, Any]:
    task = TaskRow.objects.get()
    return (task.when - NOON) / MINUTE, task.biz_ext


@MODES
class TestEachMode:
    def test_the_first_is_created(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        assert add(10, mode) is AddAction.CREATED

    def test_a_preferred_one_replaces(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        add(10, mode, "old")
        assert add(10 + sign, mode, "new") is AddAction.REPLACED
        assert stands() == (10 + sign, "new")
        assert TaskRow.objects.get().version == 1

    @pytest.mark.parametrize("by", [0, 1])
    def test_another_is_not_looked_at(self, machine: Machine, mode: IfExistsName, sign: int, by: int) -> None:
        add(10, mode, "old")
        assert add(10 - by * sign, mode, "new") is AddAction.KEPT
        assert stands() == (10, "old")
        assert TaskRow.objects.get().version == 0

    def test_a_failed_one_is_replaced(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        add(10, mode)
        TaskRow._base_manager.update(status=TaskStatus.FAILED)
        assert add(10 - sign, mode) is AddAction.REPLACED
        assert TaskRow.objects.get().status == TaskStatus.PENDING

    def test_during_a_run(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        add(0, mode)
        with frozen_at(NOON):
            [task] = claim(machine.executor)
        assert add(50, mode, "first") is AddAction.DEFERRED
        assert add(50 - sign, mode, "second") is AddAction.KEPT
        assert add(50 + sign, mode, "third") is AddAction.DEFERRED
        settlement = run_one(task, machine.handler, machine.clock)
        assert settlement
        assert set(settle("default", [settlement]).became.values()) == {NextState.AGAIN}
        assert stands() == (50 + sign, "third")

    def test_at_once(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        add(10, mode)
        with frozen_at(NOON):
            task = Task(biz_code="recurring", biz_num="1", when=None)
            action = add_task(task, if_exists=mode).action
        assert action is (AddAction.REPLACED if mode == "earliest" else AddAction.KEPT)

    def test_in_bulk(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        times = [Task(biz_code="recurring", biz_num="1", when=NOON + minute * MINUTE) for minute in (20, 40, 10, 30)]
        with frozen_at(NOON):
            assert add_tasks(times, if_exists=mode) == 2
        assert stands()[0] == (40 if mode == "latest" else 10)

    def test_an_offset_from_now(self, machine: Machine, mode: IfExistsName, sign: int) -> None:
        add(10, mode)
        with frozen_at(NOON):
            task = Task(biz_code="recurring", biz_num="1", when=timedelta(minutes=10 + sign))
            assert add_task(task, if_exists=mode).action is AddAction.REPLACED

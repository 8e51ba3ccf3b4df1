"""What the tests of recurring tasks turn by hand: an executor and a clock."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django_delayed_tasks import Task, add_task
from django_delayed_tasks.clock import DatabaseClock, frozen_at
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.triggers import Interval
from tests.executor.parts import claim, handler_of, registered
from tests.executor.runs import run_one

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVERY_TEN = Interval(minutes=10)


class HandClock(DatabaseClock):
    """Shows what it is set to."""

    moment = NOON

    def now(self) -> datetime:
        return self.moment


class Machine:
    """An executor turned by hand, at moments given in minutes after noon."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Any]] = []
        self.answers: list[Any] = []
        self.meanwhile: Callable[[], object] = lambda: None  # what another caller calls while it runs
        self.clock = HandClock()
        self.takes = timedelta()
        self.handler = handler_of(self.handle, code="recurring", backoff=lambda self, attempt: MINUTE)
        with frozen_at(NOON):
            self.executor = registered(lease=10**8)

    def handle(self, task: Any) -> Any:
        self.clock.moment += self.takes
        self.seen.append(((task.when - NOON) / MINUTE, task.biz_ext))
        self.meanwhile()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def add(self, trigger: Any = EVERY_TEN, **fields: Any) -> None:
        with frozen_at(NOON):
            add_task(Task(biz_code="recurring", biz_num="1", trigger=trigger, **fields))

    def run_at(self, minute: float, takes: timedelta = timedelta()) -> NextState | None:
        """Claim and run what is due then; what became of it."""
        self.clock.moment, self.takes = NOON + minute * MINUTE, takes
        with frozen_at(self.clock.moment):
            tasks = claim(self.executor)
        if not tasks:
            return None
        settlement = run_one(tasks[0], self.handler, self.clock)
        assert settlement
        with frozen_at(self.clock.moment):
            return settle("default", [settlement]).became[tasks[0].claim]

    @property
    def next(self) -> float:
        """The minute for which the task waits."""
        return (TaskRow.objects.get().when - NOON) / MINUTE

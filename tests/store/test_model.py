"""Whatever is called in whatever order, the store does what the model in plain Python does."""

from contextlib import ExitStack
from dataclasses import astuple, replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from django_delayed_tasks import api, clock, store
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome, TaskStatus, Then
from django_delayed_tasks.store import Settlement
from django_delayed_tasks.store.reaping import SPREAD
from tests.store import verbs
from tests.store.fixtures import STRATEGIES
from tests.store.model import Live, Model
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

NUMS = st.sampled_from("ab")
WHENS = st.sampled_from([-2, 0, 1, 3]).map(lambda hours: hours * HOUR)
THENS = st.sampled_from([Then.GONE, Then.AGAIN, Then.RETRY, Then.FAILED, Then.RELEASED])


class StoreMachine(RuleBasedStateMachine):
    """Two identities, calls from outside, and an executor that the store takes for dead when it reaps."""

    def __init__(self) -> None:
        super().__init__()
        self.block = ExitStack()
        self.block.enter_context(transaction.atomic())
        self.now = NOW
        self.tasks = {num: Model() for num in "ab"}
        self.claims: list[tuple[str, tuple[int, int]]] = []  # every one there ever was: most are stale
        self.newest: dict[int, int] = {}

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.block.close()

    @rule(num=NUMS, when=WHENS, ext=st.integers(0, 9), mode=st.sampled_from(["replace", "replace", "keep", "raise"]))
    def add(self, num: str, when: Any, ext: int, mode: str) -> None:
        expected = self.tasks[num].add(self.now, self.now + when, ext, mode)
        with clock.frozen_at(self.now):
            try:
                action: str = verbs.add(num, when, if_exists=mode, biz_ext=ext).action
            except TaskExists:
                action = "TaskExists"
        assert action == expected

    @rule(num=NUMS)
    def cancel(self, num: str) -> None:
        with clock.frozen_at(self.now):
            assert api.cancel_task(CODE, num) == self.tasks[num].cancel()

    @rule(num=NUMS, when=WHENS)
    def reschedule(self, num: str, when: Any) -> None:
        with clock.frozen_at(self.now):
            found = api.reschedule_task(CODE, num, self.now + when)
        assert found == self.tasks[num].reschedule(self.now, self.now + when)

    @rule(name=st.sampled_from(sorted(STRATEGIES)))
    def claim(self, name: str) -> None:
        due = {num: model.claim() for num, model in self.tasks.items() if model.is_due(self.now)}
        with clock.frozen_at(self.now):
            runs = verbs.claim(STRATEGIES[name])
        assert {run.biz_num: run.version for run in runs} == due
        assert all((run.attempts, run.biz_ext) == self.seen_by_run(run.biz_num) for run in runs)
        self.claims += [(run.biz_num, run.claim) for run in runs]

    def seen_by_run(self, num: str) -> tuple[int, Any]:
        live = self.tasks[num].live
        assert live
        return live.attempts, live.ext

    @rule(data=st.data(), then=THENS, when=WHENS)
    def settle(self, data: st.DataObject, then: Then, when: Any) -> None:
        if not self.claims:
            return
        back = data.draw(st.integers(1, min(3, len(self.claims))))
        num, claim = self.claims[-back]
        expected = {}
        model = self.tasks[num]
        if model.holds(claim[1]) and claim[0] == verbs.present(num).id:
            expected[claim] = model.end(self.now, then, self.now + when)
        outcome = {Then.GONE: RunOutcome.DONE, Then.AGAIN: RunOutcome.RESCHEDULED, Then.RETRY: RunOutcome.RETRIED}
        settlement = Settlement(
            claim, outcome.get(then, RunOutcome.FAILED), then, when=when, after=self.after(then, when), error="e",
            keep=then is not Then.RELEASED,
        )  # fmt: skip
        with clock.frozen_at(self.now):
            assert store.settle(ALIAS, [settlement]) == expected

    def after(self, then: Then, when: Any) -> Any:
        return when if then is Then.RETRY else 0 * HOUR

    @rule(max_rescues=st.integers(0, 2))
    def reap(self, max_rescues: int) -> None:
        ends = {num: model.reap(self.now, max_rescues) for num, model in self.tasks.items()}
        with clock.frozen_at(self.now):
            became = store.reap(ALIAS, max_rescues)
        assert sorted(became.values()) == sorted(then for then in ends.values() if then)
        for num in (num for num, then in ends.items() if then is Then.RESCUED):
            self.let_chance_say_when(num)

    def let_chance_say_when(self, num: str) -> None:
        """A task that was rescued before goes on some seconds later."""
        model, claim_at = self.tasks[num], verbs.present(num).claim_at
        assert model.live
        spread = timedelta(seconds=SPREAD) * (model.live.rescues - 1)
        assert self.now <= claim_at <= self.now + spread
        model.live = replace(model.live, claim_at=claim_at)

    @rule()
    def wait(self) -> None:
        self.now += HOUR

    @invariant()
    def rows_are_the_models(self) -> None:
        for num, model in self.tasks.items():
            assert seen(verbs.row(num)) == (astuple(model.live) if model.live else None)
            assert verbs.outcomes(num) == model.history

    @invariant()
    def versions_never_go_back(self) -> None:
        for row in Task.objects.all():
            assert self.newest.get(row.id, 0) <= row.version
            self.newest[row.id] = row.version


def seen(row: Task | None) -> tuple[Any, ...] | None:
    """The row as the model has it."""
    if row is None:
        return None
    deferred = (row.deferred_when, row.deferred_biz_ext) if row.deferred_when else None
    stopping = row.cancel_requested_at is not None
    return astuple(
        Live(
            row.when, row.biz_ext, row.claim_at, TaskStatus(row.status), row.version, row.attempts, row.rescues,
            stopping, deferred,
        )
    )  # fmt: skip


def test_the_store_does_what_the_model_does(db: None) -> None:
    """Always the same examples: another run of the suite must not find what this one did not."""
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],  # to shrink a failure would take minutes
            suppress_health_check=list(HealthCheck),
        ),
    )

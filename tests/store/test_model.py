"""The store does what a model in plain Python does, for all calls in any order."""

import json
from contextlib import ExitStack
from dataclasses import astuple, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from django_delayed_tasks import api, clock
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Success, Task
from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import IfExistsName, NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.schedules.verbs import RUN_NOW
from django_delayed_tasks.store.settling.reap import SPREAD, reap
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.triggers import Interval
from tests.store import verbs
from tests.store.fixtures import STRATEGIES
from tests.store.model import OUTCOMES, Live, Model, WantedResource
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

NUMS = st.sampled_from("ab")
NAMES = st.sampled_from(sorted(STRATEGIES))
REPLACING = ["replace", "replace_once", "replace_by_recurring"]
DURING_RUN = [*REPLACING, "keep", "cancel", "reschedule", "pause", "resume"]
VERBS = st.sampled_from([*DURING_RUN, "run_now", "forget"])
TRIGGER = str(Interval(hours=2))
WHENS = st.sampled_from([-2, 0, 1, 3]).map(lambda hours: hours * HOUR)
LEAVING = (NextState.GONE, NextState.AGAIN, NextState.RECUR)
THENS = st.sampled_from(
    [
        NextState.GONE,
        NextState.GONE,
        NextState.AGAIN,
        NextState.RECUR,
        NextState.RETRY,
        NextState.FAILED,
        NextState.RELEASED,
    ]
)
LEFT = st.sampled_from([UNCHANGED, None, "left", [1, {"a": None}]])
MODES = st.sampled_from(["replace", "replace", "keep", "raise", "earliest", "latest"])
KINDS: list[dict[str, Any]] = [{}, {"once": True}, {"trigger": TRIGGER}]


class StoreMachine(RuleBasedStateMachine):
    """Two identities, calls from outside, and an executor that the store takes for dead when it reaps."""

    def __init__(self) -> None:
        super().__init__()
        self.block = ExitStack()
        self.block.enter_context(transaction.atomic())
        self.now = NOW
        self.tasks = {num: Model() for num in "ab"}
        self.claims: list[tuple[str, Claim]] = []  # every one there ever was: most are stale
        self.newest: dict[int, int] = {}

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.block.close()

    @rule(num=NUMS, when=WHENS, ext=st.integers(0, 9), mode=MODES, kind=st.sampled_from(KINDS))
    def add(self, num: str, when: Any, ext: int, mode: IfExistsName, kind: dict[str, Any]) -> None:
        with clock.frozen_at(self.now):
            self._add(num, WantedResource(self.now + when, ext, **kind), mode)

    def _add(self, num: str, wanted: WantedResource, mode: IfExistsName) -> None:
        expected = self.tasks[num].add(self.now, wanted, mode)
        task = verbs.task(num, wanted.when, biz_ext=wanted.ext, trigger=wanted.trigger)
        try:
            action: str = api.add_task(task, if_exists=mode, once=wanted.once).action
        except TaskExists:
            action = "TaskExists"
        assert action == expected

    @rule(when=WHENS, ext=st.integers(0, 9), mode=MODES, kind=st.sampled_from(KINDS))
    def add_both(self, when: Any, ext: int, mode: IfExistsName, kind: dict[str, Any]) -> None:
        """Add both in bulk; one that is refused undoes the other."""
        with clock.frozen_at(self.now):
            wanted = WantedResource(self.now + when, ext, **kind)
            before = {num: replace(model.live) if model.live else None for num, model in self.tasks.items()}
            expected = [model.add(self.now, wanted, mode) for model in self.tasks.values()]
            tasks = [verbs.task(num, wanted.when, biz_ext=ext, trigger=wanted.trigger) for num in self.tasks]
            try:
                added = api.add_tasks(tasks, if_exists=mode, once=wanted.once)
            except TaskExists:
                assert "TaskExists" in expected
                for num, model in self.tasks.items():
                    model.live = before[num]
            else:
                assert added == len(expected) - expected.count("kept") - expected.count("filtered")

    @rule(num=NUMS, verb=VERBS, when=WHENS)
    def call(self, num: str, verb: str, when: Any) -> None:
        """Call a verb while the task waits, runs or does not exist."""
        with clock.frozen_at(self.now):
            getattr(self, verb)(num, self.now + when)

    def replace(self, num: str, when: datetime) -> None:
        self._add(num, WantedResource(when, "plain"), "replace")

    def replace_once(self, num: str, when: datetime) -> None:
        self._add(num, WantedResource(when, "once", once=True), "replace")

    def keep(self, num: str, when: datetime) -> None:
        self._add(num, WantedResource(when, "kept"), "keep")

    def replace_by_recurring(self, num: str, when: datetime) -> None:
        self._add(num, WantedResource(when, "recurring", trigger=TRIGGER), "replace")

    def cancel(self, num: str, _: datetime) -> None:
        assert api.cancel_task(CODE, num) == self.tasks[num].cancel()

    def reschedule(self, num: str, when: datetime) -> None:
        assert api.reschedule_task(CODE, num, when) == self.tasks[num].reschedule(self.now, when)

    def pause(self, num: str, _: datetime) -> None:
        assert api.pause_task(CODE, num) == self.tasks[num].pause()

    def resume(self, num: str, _: datetime) -> None:
        assert api.resume_task(CODE, num) == self.tasks[num].resume(self.now)

    def run_now(self, num: str, _: datetime) -> None:
        seen = [(row.id, row.version) for row in [verbs.row(num)] if row]
        assert bool(RUN_NOW.to_seen(ALIAS, seen)) == self.tasks[num].run_now(self.now)

    def forget(self, num: str, _: datetime) -> None:
        assert api.forget(CODE, num) == self.tasks[num].forget()

    @rule(name=NAMES)
    def claim(self, name: str) -> None:
        self._claim(name)

    def _claim(self, name: str) -> None:
        due = {num: model.claim() for num, model in self.tasks.items() if model.is_due(self.now)}
        with clock.frozen_at(self.now):
            runs = verbs.claim(STRATEGIES[name])
        assert {run.biz_num: run.version for run in runs} == due
        assert all((run.attempts, run.biz_ext) == self.seen_by_run(run.biz_num) for run in runs)
        self.claims += [(run.biz_num, run.claim) for run in runs]

    def seen_by_run(self, num: str) -> tuple[int, Any]:
        live = self.tasks[num].live
        assert live
        return live.attempts, live.wanted.ext

    @rule(back=st.integers(1, 3), then=THENS, when=WHENS, left=LEFT)
    def settle(self, back: int, then: NextState, when: Any, left: Any) -> None:
        self._settle(back, then, when, left)

    @rule(
        name=NAMES,
        kind=st.sampled_from(KINDS),
        calls=st.lists(st.sampled_from(DURING_RUN), max_size=3),
        then=THENS,
        left=LEFT,
    )
    def run(self, name: str, kind: dict[str, Any], calls: list[str], then: NextState, left: Any) -> None:
        """Run each task once, from its claim to its end, with these calls in between."""
        with clock.frozen_at(self.now):
            for num, model in self.tasks.items():
                if not model.is_due(self.now):
                    self._add(num, WantedResource(self.now, "due", **kind), "replace")
        self._claim(name)
        with clock.frozen_at(self.now):
            for verb, num in product(calls, self.tasks):
                getattr(self, verb)(num, self.now + HOUR)
        for back in range(1, len(self.tasks) + 1):
            self._settle(back, then, HOUR, left)

    def _settle(self, back: int, then: NextState, when: Any, left: Any) -> None:
        if len(self.claims) < back:
            return
        num, claim = self.claims[-back]
        left = left if then in LEAVING else UNCHANGED
        expected = {}
        model = self.tasks[num]
        once = model.is_remembered(then)
        if model.holds(claim.version) and claim.id == verbs.present(num).id:
            expected[claim] = model.end(self.now, then, self.now + when, ext=left)
        settlement = Settlement(
            claim, OUTCOMES.get(then, RunOutcome.FAILED), then, when=when, after=self.after(then, when), error="e",
            keep=then is not NextState.RELEASED, once=once, biz_ext=as_text(left),
        )  # fmt: skip
        with clock.frozen_at(self.now):
            assert settle(ALIAS, [settlement]).became == expected

    def after(self, then: NextState, when: Any) -> Any:
        return when if then is NextState.RETRY else 0 * HOUR

    @rule(max_rescues=st.integers(0, 2))
    def reap(self, max_rescues: int) -> None:
        ends = {num: model.reap(self.now, max_rescues) for num, model in self.tasks.items()}
        with clock.frozen_at(self.now):
            became = reap(ALIAS, max_rescues)
        assert sorted(became.values()) == sorted(then for then in ends.values() if then)
        for num in (num for num, then in ends.items() if then is NextState.RESCUED):
            self.let_chance_say_when(num)

    def let_chance_say_when(self, num: str) -> None:
        """A task that was rescued before becomes claimable some seconds later."""
        model, claim_at = self.tasks[num], verbs.present(num).claim_at
        assert model.live
        spread = timedelta(seconds=SPREAD) * (model.live.rescues - 1)
        assert self.now <= claim_at <= self.now + spread
        model.live = replace(model.live, claim_at=claim_at)

    @rule(num=NUMS, hours=st.integers(0, 3))
    def stand_still(self, num: str, hours: int) -> None:
        with clock.frozen_at(self.now):
            self.pause(num, self.now)
        self.now += hours * HOUR
        with clock.frozen_at(self.now):
            self.resume(num, self.now)

    @rule()
    def wait(self) -> None:
        self.now += HOUR

    @invariant()
    def rows_are_the_models(self) -> None:
        for num, model in self.tasks.items():
            assert seen(verbs.row(num)) == (astuple(model.live) if model.live else None)
            assert verbs.outcomes(num) == model.history
            assert Success.objects.filter(biz_code=CODE, biz_num=num).exists() == model.is_done

    @invariant()
    def versions_never_go_back(self) -> None:
        for row in Task.objects.all():
            assert self.newest.get(row.id, 0) <= row.version
            self.newest[row.id] = row.version


def as_text(left: Any) -> Any:
    """Return the value as a settlement has it."""
    return left if left is UNCHANGED or left is None else json.dumps(left)


def seen(row: Task | None) -> tuple[Any, ...] | None:
    """The row as the model has it."""
    if row is None:
        return None
    wanted = WantedResource(row.when, row.biz_ext, row.trigger_text, bool(row.once))
    deferred = None
    if row.deferred_when:
        deferred = WantedResource(
            row.deferred_when, row.deferred_biz_ext, row.deferred_trigger_text, row.deferred_once is not None,
            bool(row.deferred_keeps_ext), row.deferred_once is False,
        )  # fmt: skip
    return astuple(
        Live(
            wanted, row.claim_at, TaskStatus(row.status), row.version, row.attempts, row.rescues,
            row.cancel_requested_at is not None, bool(row.pause_requested), deferred,
        )
    )  # fmt: skip


def test_the_store_does_what_the_model_does(db: None) -> None:
    """Always the same examples: another run of the suite must not find what this one did not."""
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],  # to shrink a failure would take minutes
            suppress_health_check=list(HealthCheck),
        ),
    )

"""What two calls that meet at one task may come to: one of the two before the other, as the state table says.

Each call is made on the real row and on the model of the table (tests/store/model.py).
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import Success, Task, TaskRun
from django_delayed_tasks.states import IfExistsName, NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.store import verbs
from tests.store.model import Model, WantedResource
from tests.store.test_model import seen
from tests.store.verbs import ALIAS, CODE, HOUR, NOW

OLD, NEW, AGAIN = NOW - HOUR, NOW + HOUR, NOW + 2 * HOUR


@dataclass
class Subject:
    """One identity: its run, if it has one, and what the state table says of it."""

    num: str
    model: Model
    run: ClaimedTask | None = None


class Call(NamedTuple):
    """A call on rows, and on the model. ``of_all``: one call for all rows, which may leave out locked ones."""

    real: Callable[[list[Subject]], dict[str, Any]]
    model: Callable[[Model], Any]
    of_all: bool = False


def each(real: Callable[[Subject], Any], model: Callable[[Model], Any]) -> Call:
    """A call for each row."""
    return Call(lambda subjects: {subject.num: real(subject) for subject in subjects}, model)


def adding(mode: IfExistsName, *, once: bool = False, many: bool = False) -> Call:
    def real(subject: Subject) -> Any:
        task = verbs.task(subject.num, NEW, biz_ext="new")
        try:
            if many:
                return api.add_tasks([task], if_exists=mode, once=once)
            return str(api.add_task(task, if_exists=mode, once=once).action)
        except TaskExists:
            return "TaskExists"

    def model(model: Model) -> Any:
        said = model.add(NOW, WantedResource(NEW, "new", once=once), mode)
        return said if said == "TaskExists" or not many else int(said not in ("kept", "filtered"))

    return each(real, model)


MODES: tuple[IfExistsName, ...] = ("replace", "keep", "raise", "earliest", "latest")
ADDS = {
    **{mode: adding(mode) for mode in MODES},
    **{f"many {mode}": adding(mode, many=True) for mode in MODES},
    "once": adding("replace", once=True),
    "keep once": adding("keep", once=True),
    "many keep once": adding("keep", once=True, many=True),
}


def settling(then: NextState, outcome: RunOutcome, **rest: Any) -> Call:
    def real(subject: Subject) -> Any:
        assert subject.run
        settlement = Settlement(subject.run.claim, outcome, then, keep=then is not NextState.RELEASED, **rest)
        return next(iter(verbs.settle(settlement).values()), None)

    return each(real, lambda model: model.end(NOW, then, AGAIN, None if then is NextState.RELEASED else outcome))


def claim_all(subjects: list[Subject]) -> dict[str, Any]:
    runs = {run.biz_num: run for run in verbs.claim(limit=1000)}
    for subject in subjects:
        subject.run = runs.get(subject.num)
    return {subject.num: subject.num in runs for subject in subjects}


def claim_model(model: Model) -> bool:
    is_due = model.is_due(NOW)
    if is_due:
        model.claim()
    return is_due


def reap_all(subjects: list[Subject]) -> dict[str, Any]:
    became = reap(ALIAS, 3)
    return {subject.num: became.get(subject.run.claim) if subject.run else None for subject in subjects}


def by_identity(verb: Callable[..., Any], model: Callable[[Model], Any], *given: Any) -> Call:
    return each(lambda subject: verb(CODE, subject.num, *given), model)


CALLS: dict[str, Call] = {
    "claim": Call(claim_all, claim_model, of_all=True),
    "reap": Call(reap_all, lambda model: model.reap(NOW, 3), of_all=True),
    "done": settling(NextState.GONE, RunOutcome.DONE),
    "done once": settling(NextState.GONE, RunOutcome.DONE, once=True),
    "again": settling(NextState.AGAIN, RunOutcome.RESCHEDULED, when=AGAIN),
    "recur": settling(NextState.RECUR, RunOutcome.DONE, when=AGAIN),
    "retry": settling(NextState.RETRY, RunOutcome.RETRIED, after=2 * HOUR),
    "failed": settling(NextState.FAILED, RunOutcome.FAILED),
    "release": settling(NextState.RELEASED, RunOutcome.LOST),
    "cancel": by_identity(api.cancel_task, Model.cancel),
    "pause": by_identity(api.pause_task, Model.pause),
    "resume": by_identity(api.resume_task, lambda model: model.resume(NOW)),
    "reschedule": by_identity(api.reschedule_task, lambda model: model.reschedule(NOW, AGAIN), AGAIN),
}

STATES: dict[str, list[str]] = {
    "absent": [],
    "due": ["add"],
    "running": ["add", "claim"],
    "stopping": ["add", "claim", "cancel"],
    "deferred": ["add", "claim", "replace"],
    "rearmed": ["add", "claim", "cancel", "keep"],
    "paused": ["add", "pause"],
    "pausing": ["add", "claim", "pause"],
    "failed": ["add", "claim", "failed"],
    "once, running": ["add once", "claim"],
    "once, stopping": ["add once", "claim", "cancel"],
    "once, moving": ["add once", "claim", "reschedule"],
}
"""The states, each with the calls that lead to it."""

_OF_A_RUN = ["running", "stopping", "deferred", "rearmed"]
PAIRS: dict[str, list[str]] = {
    "claim": ["due"],
    "reap": _OF_A_RUN,
    **dict.fromkeys(("done", "again", "recur", "retry", "failed", "release"), _OF_A_RUN),
    "done once": ["once, running", "once, stopping", "once, moving"],
    "cancel": ["absent", "running", "stopping", "failed", "due"],
    "pause": ["running", "stopping", "due"],
    "resume": ["paused", "pausing"],
    "reschedule": ["absent", "running", "stopping", "due"],
}
"""Which calls meet an add in which states; what is due comes last, or another state's claim would take it."""


def _add_old(*, once: bool) -> Call:
    return each(
        lambda subject: str(api.add_task(verbs.task(subject.num, OLD, biz_ext="old"), once=once).action),
        lambda model: model.add(NOW, WantedResource(OLD, "old", once=once), "replace"),
    )


_STEPS = {"add": _add_old(once=False), "add once": _add_old(once=True)} | ADDS | CALLS


def reach(state: str, nums: Iterable[str]) -> list[Subject]:
    """Tasks in this state, in the database and in the model."""
    subjects = [Subject(num, Model()) for num in nums]
    for name in STATES[state]:
        said = _STEPS[name].real(subjects)
        for subject in subjects:
            assert _STEPS[name].model(subject.model) == said[subject.num], (state, name)
    return subjects


def allowed(model: Model, add: Call, call: Call) -> Iterator[tuple[str, Any]]:
    """Yield each order of the two, with its result."""
    first, second = deepcopy(model), deepcopy(model)
    said = add.model(first)
    yield "add first", _outcome(first, said, call.model(first))
    became = call.model(second)
    yield "add last", _outcome(second, add.model(second), became)
    if call.of_all:
        third = deepcopy(model)
        nothing = False if call is CALLS["claim"] else None
        yield "left out", _outcome(third, add.model(third), nothing)


def _outcome(model: Model, said: Any, became: Any) -> Any:
    return said, became, model.live and astuple(model.live), tuple(model.history), model.is_done


class Found(NamedTuple):
    """What is in the tables."""

    rows: dict[str, Task]
    runs: dict[str, list[RunOutcome]]
    done: set[str]

    def outcome(self, num: str, said: Any, became: Any) -> Any:
        """Return the outcome in the form in which the model has it."""
        row = seen(self.rows.get(num))
        return said, became, row, tuple(self.runs.get(num, [])), num in self.done


def look() -> Found:
    """Read the tables."""
    runs: dict[str, list[RunOutcome]] = {}
    for num, outcome in TaskRun.objects.order_by("id").values_list("biz_num", "outcome"):
        runs.setdefault(num, []).append(RunOutcome(outcome))
    rows = {row.biz_num: row for row in Task.objects.all()}
    return Found(rows, runs, set(Success.objects.values_list("biz_num", flat=True)))

"""Goals: ratios of figures of one run, met or missed, or not measured."""

import pytest

from harness.benchmarks.cases import NAMES, case_of
from harness.benchmarks.figures import Figure, Figures
from harness.benchmarks.goals import Goal, measured

OURS, ONE, OTHER = (Figure("case", "sqlite", subject, "plain", "tasks/s") for subject in ("us", "one", "other"))


def figures(ours: float | None = None, one: float | None = None, other: float | None = None) -> Figures:
    found = Figures()
    for figure, value in ((OURS, ours), (ONE, one), (OTHER, other)):
        if value is not None:
            found.note(figure, value)
    return found


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (figures(ours=6, one=2, other=3), 2.0),
        (figures(ours=6, one=2), 3.0),
        (figures(ours=6), None),
        (figures(one=2, other=3), None),
    ],
)
def test_it_is_compared_with_the_best_of_those_measured(known: Figures, expected: float | None) -> None:
    assert Goal("row", OURS, 1.0, (ONE, OTHER)).value(known) == expected


def test_one_that_is_compared_with_nothing() -> None:
    goal = Goal("row", OURS, 1.0)
    assert (goal.value(figures(ours=6)), goal.unit) == (6, "tasks/s")
    assert Goal("row", OURS, 1.0, (ONE,)).unit == "×"


@pytest.mark.parametrize(("value", "least", "most"), [(0.9, False, True), (1.0, True, True), (1.1, True, False)])
def test_bounds_belong_to_what_is_enough(value: float, least: bool, most: bool) -> None:
    assert Goal("row", OURS, 1.0).is_met(value) is least
    assert Goal("row", OURS, 1.0, is_most=True).is_met(value) is most


def test_what_was_not_measured_is_left_out() -> None:
    goals = [Goal("one", OURS, 1.0, (ONE,)), Goal("other", OURS, 1.0, (OTHER,))]
    assert measured(goals, figures(ours=6, other=3)) == [(goals[1], 2.0)]


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_goals_of_its_own(name: str) -> None:
    goals = case_of(name).GOALS
    assert all(name in {figure.case for figure in (goal.of, *goal.to)} for goal in goals)
    assert len({(goal.row, goal.of, goal.to) for goal in goals}) == len(goals)

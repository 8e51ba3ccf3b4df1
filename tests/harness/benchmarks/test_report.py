"""The tables that are printed."""

import pytest

from harness.benchmarks.figures import Figure, Figures
from harness.benchmarks.goals import Goal
from harness.benchmarks.report import figures_table, goals_table, number

RATE = Figure("drain", "sqlite", "us", "plain", "tasks/s")
FLOOR = RATE._replace(subject="floor")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,346"),
        (100, "100"),
        (99.96, "100.0"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0, "0.00"),
        (-250, "-250"),
    ],
)
def test_digits_that_mean_something(value: float, text: str) -> None:
    assert number(value) == text


@pytest.fixture
def figures() -> Figures:
    return Figures({RATE: [1000.0, 3000.0, 2000.0], FLOOR: [4000.0]})


def test_figures(figures: Figures) -> None:
    assert figures_table(figures).splitlines() == [
        "| case  | database | subject | variant | median | lowest – highest | unit    |",
        "|-------|----------|---------|---------|--------|------------------|---------|",
        "| drain | sqlite   | us      | plain   | 2,000  | 1,000 – 3,000    | tasks/s |",
        "| drain | sqlite   | floor   | plain   | 4,000  | 4,000 – 4,000    | tasks/s |",
    ]


def test_what_was_not_measured_has_a_row(figures: Figures) -> None:
    figures.missing["lateness", "redis", "celery"] = "ended with 1:\nno | such option"
    last = figures_table(figures).splitlines()[-1]
    assert [cell.strip() for cell in last.strip("|").split("|")] == [
        "lateness", "redis", "celery", "", "not measured", "ended with 1: no / such option", "",
    ]  # fmt: skip


def test_goals(figures: Figures) -> None:
    goals = [
        Goal("drain", RATE, 0.5, (FLOOR,)),
        Goal("drain more", RATE, 0.6, (FLOOR,)),
        Goal("drain less", RATE, 2500, is_most=True),
        Goal("not measured", RATE._replace(variant="none"), 1),
    ]
    assert [row.strip("| ").split() for row in goals_table(goals, figures).splitlines()[2:]] == [
        ["drain", "|", "sqlite", "|", "floor", "|", "≥", "0.50", "×", "|", "0.50", "×", "|", "met"],
        ["drain", "more", "|", "sqlite", "|", "floor", "|", "≥", "0.60", "×", "|", "0.50", "×", "|", "MISSED"],
        ["drain", "less", "|", "sqlite", "|", "|", "≤", "2,500", "tasks/s", "|", "2,000", "tasks/s", "|", "met"],
    ]

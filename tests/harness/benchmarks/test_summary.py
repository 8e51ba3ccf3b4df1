"""The sentences at the top of the results are read from the figures, and are true of those that were published."""

from pathlib import Path

from harness.benchmarks import cases, publish, summary
from harness.benchmarks.figures import PRODUCT, Figure, Figures, read


def made(*values: tuple[str, str, str, str, float]) -> Figures:
    figures = Figures()
    for case, database, variant, unit, value in values:
        figures.note(Figure(case, database, PRODUCT, variant, unit), value)
    return figures


def test_each_sentence_names_the_slowest_database() -> None:
    figures = made(
        ("drain", "sqlite", "plain, 1 process", "tasks/s", 24_000),
        ("drain", "mysql", "plain, 1 process", "tasks/s", 17_000),
        ("lateness", "sqlite", "known ahead", "ms p99", 0.31),
        ("lateness", "mysql", "known ahead", "ms p99", 0.42),
        ("lateness", "mysql", "known ahead", "early starts", 2),
        ("lateness", "sqlite", "added at once", "ms p99", 4.0),
        ("backlog", "mariadb", "agenda and claim of 100, 10,000 on 1 level", "ms", 2.0),
        ("backlog", "mariadb", "agenda and claim of 100, 100,000 on 1 level", "ms", 2.5),
        ("backlog", "mysql", "agenda and claim of 100, 10,000 on 1 level", "ms", 3.0),
        ("backlog", "mysql", "agenda and claim of 100, 100,000 on 1 level", "ms", 3.0),
    )
    throughput, lateness, waiting = summary.sentences(figures, [])
    assert "17,000 to 24,000 empty tasks a second" in throughput
    assert "added in advance began at most 0.5 ms late" in lateness
    assert "were to run at once began at most 4.0 ms late; 2 began early" in lateness
    assert "at most 1.25 times as long with 100,000 tasks for later as with 10,000; that was on MariaDB" in waiting


def test_a_sentence_without_figures_is_left_out() -> None:
    assert [*summary.sentences(Figures(), [])] == []
    [lateness] = summary.sentences(made(("lateness", "mysql", "known ahead", "ms p99", 0.42)), [])
    assert "at most 0.5 ms late; 0 began early" in lateness


def test_goals_are_counted() -> None:
    goal = next(goal for goal in cases.case_of("lateness").GOALS if not goal.to and goal.is_most)
    figures = Figures()
    figures.note(goal.of, goal.bound + 1)
    [sentence] = summary.sentences(figures, [goal])
    assert "Of 1, 0 are met and [1 are missed](../explanation/performance.md#what-was-missed)" in sentence


def test_the_page_is_made_of_the_figures_beside_it() -> None:
    page = Path("docs/benchmarks/results.md").read_text()
    figures, about = read(Path("docs/benchmarks/results.json"))
    assert page == publish.page(figures, about)
    assert page.index("**Throughput.**") < page.index("drain.svg") < page.index("lateness.svg") < page.index("## Goals")

"""Figures: what was noted comes out again, also through a file."""

from pathlib import Path

from harness.benchmarks.figures import Figure, Figures, Spread, read

RATE = Figure("drain", "sqlite", "us", "plain", "tasks/s")
OTHER = Figure("add", "sqlite", "us", "plain", "tasks/s")


def noted(**values: list[float]) -> Figures:
    figures = Figures()
    for name, given in values.items():
        for value in given:
            figures.note({"rate": RATE, "other": OTHER}[name], value)
    return figures


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert noted(rate=[5, 1, 4]).spread(RATE) == Spread(4, 1, 5)
    assert noted(rate=[1, 4]).spread(RATE) == Spread(2.5, 1, 4)
    assert noted(rate=[1]).spread(OTHER) is None


def test_figures_of_a_case() -> None:
    assert noted(rate=[1], other=[2]).of_case("add") == [OTHER]


def test_two_have_nothing_in_common() -> None:
    noted(rate=[1])
    assert Figures().values == {}


def test_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "figures.json"
    figures = noted(rate=[1.5, 2], other=[3])
    figures.missing["lateness", "redis", "celery"] = "ended with 1"
    figures.write(path, {"processors": 2})
    again, about = read(path)
    assert (again.values, about) == (figures.values, {"processors": 2})
    assert again.missing == figures.missing

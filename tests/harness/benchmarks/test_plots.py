"""What the plots of the benchmarks show, and what is published of a run; the drawing itself where matplotlib is."""

from pathlib import Path

from harness.benchmarks import plot_data, plots, publish, series
from harness.benchmarks.cases import limits
from harness.benchmarks.figures import BEFORE, LEAN, PRODUCT, Figure, Figures, read

ABOUT = {"python": "3.13.0", "django": "6.1", "databases": ["MariaDB 10.11"], "processors": 2, "repeats": [3]}


def figures() -> Figures:
    """Made up."""
    made = Figures()
    for case, database, subject, variant, unit, value in (
        ("drain", "mariadb", PRODUCT, "plain, 1 process", "tasks/s", 15_000),
        ("drain", "mariadb", PRODUCT, "plain, 2 processes", "tasks/s", 19_000),
        ("drain", "mariadb", LEAN, "plain, 1 process", "tasks/s", 30_000),
        ("drain", "mariadb", PRODUCT, "plain, 2 processes", "commits", 40),
        ("peers", "redis", "huey", "2 threads, 2 workers", "tasks/s", 8_000),
        ("lateness", "sqlite", PRODUCT, "known ahead", "ms p50", 0.0),
        ("lateness", "sqlite", PRODUCT, "known ahead", "ms p99", 1.5),
        ("lateness", "sqlite", PRODUCT, "known ahead", "ms max", 2.5),
        ("limits", "mariadb", PRODUCT, "no backlog", "ms p50", 0.5),
        ("limits", "mariadb", PRODUCT, "no backlog", "ms p99", 4.0),
        ("limits", "mariadb", PRODUCT, limits.SLOTS, "ms p50", 0.6),
        ("limits", "mariadb", PRODUCT, limits.SLOTS, "ms p99", 4.5),
        ("limits", "mariadb", PRODUCT, limits.SLOTS, "runs/s", 1_000),
        ("backlog", "mariadb", PRODUCT, "agenda and claim of 100, 100,000 on 1 level", "ms", 2.1),
        ("backlog", "mariadb", PRODUCT, "agenda and claim of 100, 10,000 on 1 level", "ms", 2.0),
        ("backlog", "mariadb", PRODUCT, "claim, 10,000 on 1 level", "rows per claimed row", 1.0),
        ("storm", "mariadb", PRODUCT, "last start", "s", 9.0),
    ):
        made.note(Figure(case, database, subject, variant, unit), value)
    return made


def test_bars_are_the_best_of_each_way_and_the_fastest_is_first() -> None:
    assert {
        database: [(bar.label, bar.value) for bar in bars] for database, bars in plot_data.drain_bars(figures()).items()
    } == {
        "mariadb": [(f"{LEAN} (1 process)", 30_000), (f"{PRODUCT} (2 processes)", 19_000)],
        "redis": [("huey (2 threads, 2 workers)", 8_000)],
    }


def test_lateness_is_shown_by_variant() -> None:
    expected = plot_data.Range(PRODUCT, f"{PRODUCT}, SQLite", 0.0, 1.5, 2.5)
    assert plot_data.lateness_ranges(figures()) == {"known ahead": [expected]}


def before() -> Figures:
    """What is kept of the code before lanes."""
    return read(publish.BEFORE)[0]


def test_lateness_beside_a_limited_backlog_is_shown_before_and_now() -> None:
    assert plot_data.limits_ranges(figures(), before()) == {
        "MariaDB": [
            plot_data.Range(BEFORE, "no backlog: before", 0.5, 4.2),
            plot_data.Range(PRODUCT, "no backlog: now", 0.5, 4.0),
            plot_data.Range(BEFORE, f"{limits.SLOTS}: before", 196, 329),
            plot_data.Range(PRODUCT, f"{limits.SLOTS}: now", 0.6, 4.5),
            plot_data.Range(BEFORE, f"{limits.KEYS}: before", 183, 324),
            plot_data.Range(BEFORE, f"{limits.RATE}: before", 175, 284),
        ]
    }


def test_lines_of_the_backlog_go_from_small_to_large() -> None:
    line = plot_data.Line("MariaDB, 1 level", [10_000, 100_000], [2.0, 2.1])
    assert plot_data.backlog_lines(figures()) == [line]


def test_a_series_is_shown_only_with_figures_of_its_case(tmp_path: Path) -> None:
    file = tmp_path / "series.json"
    series.write("storm", "mariadb", 0.1, [5, 6], file)
    series.write("storm", "mysql", 0.1, [7], file)
    series.write("memory", "mariadb", 0.5, [60], file)
    read = series.read(file)
    assert plot_data.series_lines(figures(), read, "storm") == [
        plot_data.Line("MariaDB", [0.0, 0.1, 0.2], [5.0, 6.0, 6.0])
    ]
    assert plot_data.series_lines(figures(), read, "memory") == []


def test_the_page_tells_of_the_machine_and_of_a_quick_run() -> None:
    page = publish.page(figures(), {**ABOUT, "quick": True})
    assert "Measured once on 2 processors with Python 3.13.0, Django 6.1, MariaDB 10.11. A quick run" in page
    assert "| storm, last start |" in " ".join(page.split())
    assert "quick" not in publish.page(figures(), {**ABOUT, "quick": False})


def test_several_runs_are_published_as_one(tmp_path: Path) -> None:
    figures().write(tmp_path / "one.json", {**ABOUT, "quick": False})
    figures().write(tmp_path / "other.json", {**ABOUT, "quick": False, "databases": ["SQLite 3"], "repeats": [1]})
    merged, about = publish.together([tmp_path / "one.json", tmp_path / "other.json"])
    assert merged.values == {figure: [*values, *values] for figure, values in figures().values.items()}
    assert "Measured 2 times on 2 processors with" in publish.page(merged, about)
    assert "MariaDB 10.11, SQLite 3." in publish.page(merged, about)


def test_plots_without_figures_are_left_out(tmp_path: Path) -> None:
    assert plots.draw(Figures(), {}, tmp_path, before()) == []
    drawn = plots.draw(figures(), {"storm": {"mariadb": {"bin": 0.1, "values": [1, 2]}}}, tmp_path, before())
    assert [path.name for path in drawn] == ["drain.svg", "lateness.svg", "limits.svg", "backlog.svg", "storm.svg"]
    assert all("<svg" in path.read_text() for path in drawn)

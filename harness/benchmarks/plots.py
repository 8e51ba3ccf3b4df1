"""The plots that the documentation shows, drawn from figures: SVG, dark on white. Needs matplotlib (extra "bench")."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from harness.benchmarks import plot_data
from harness.benchmarks.figures import LEAN, PRODUCT, Figures
from harness.benchmarks.plot_data import Bar, Line, Range
from harness.benchmarks.series import Series

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Page

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "django-delayed-tasks",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
}
COLOURS = {PRODUCT: "#1f5a96", LEAN: "#8a8a8a"}
OTHER = "#c9a26b"
WIDTH, ROW, TITLE = 8.0, 0.26, 0.4
"""Inches."""
HIGH = 6
"""Rows of a panel with a line."""
LEAST = 0.01
"""Milliseconds: a logarithmic scale has no 0."""
LINES = ("#1f5a96", "#c0602b", "#3c8d5a", "#7d5ba6", "#8a8a8a", "#b03a5b", "#2b9aa0", "#d4a017")


def draw(figures: Figures, series: Series, folder: Path, before: Figures) -> list[Path]:
    """Draw every plot for which there are figures; return the files that were written.

    ``before`` has the figures of limits before lanes.
    """
    plots: dict[str, Callable[[], Page | None]] = {
        "drain": lambda: drain_rates(plot_data.drain_bars(figures)),
        "lateness": lambda: lateness(plot_data.lateness_ranges(figures)),
        "limits": lambda: lateness(plot_data.limits_ranges(figures, before)),
        "backlog": lambda: backlog(plot_data.backlog_lines(figures)),
        "storm": lambda: over_time(plot_data.series_lines(figures, series, "storm"), *STORM),
        "memory": lambda: over_time(plot_data.series_lines(figures, series, "memory"), *MEMORY),
        "sustained": lambda: over_time(plot_data.series_lines(figures, series, "sustained"), *SUSTAINED),
    }
    written = []
    with mpl.rc_context(STYLE):
        for name, make in plots.items():
            if page := make():
                written.append(_save(page, folder / f"{name}.svg"))
    return written


def _save(page: Page, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(page)
    return path


def panels(heights: Sequence[int]) -> tuple[Page, list[Axes]]:
    """One below the other, with one scale; a height is a number of rows in it."""
    page, axes = plt.subplots(
        len(heights), 1, squeeze=False, sharex=True, layout="constrained",
        figsize=(WIDTH, sum(ROW * height + TITLE for height in heights) + TITLE), height_ratios=heights,
    )  # fmt: skip
    return page, [row[0] for row in axes]


def drain_rates(bars: dict[str, list[Bar]]) -> Page | None:
    """A panel for each database, the fastest on top."""
    if not bars:
        return None
    page, axes = panels([len(of_one) for of_one in bars.values()])
    for panel, (database, of_one) in zip(axes, bars.items(), strict=True):
        panel.set_title(plot_data.name_of(database))
        drawn = panel.barh(
            [bar.label for bar in of_one], [bar.value for bar in of_one], height=0.72,
            color=[COLOURS.get(bar.subject, OTHER) for bar in of_one],
        )  # fmt: skip
        panel.bar_label(drawn, [f"{bar.value:,.0f}" for bar in of_one], padding=3)
        _rows(panel, len(of_one))
    greatest = max(bar.value for of_one in bars.values() for bar in of_one)
    axes[-1].set_xlim(0, greatest * 1.15)
    _thousands(axes[-1].xaxis)
    axes[-1].set_xlabel("tasks per second")
    return page


def lateness(ranges: dict[str, list[Range]]) -> Page | None:
    """A panel for each way: from the median over the 99th percentile to the latest, where that was measured."""
    if not ranges:
        return None
    page, axes = panels([len(of_one) for of_one in ranges.values()])
    for panel, (variant, of_one) in zip(axes, ranges.items(), strict=True):
        panel.set_title(variant)
        for row, one in enumerate(of_one):
            colour = COLOURS.get(one.subject, OTHER)
            values = [value for value in (one.median, one.p99, one.latest) if value is not None]
            drawn = [max(value, LEAST) for value in values]
            panel.plot([drawn[0], drawn[-1]], [row, row], color=colour, linewidth=2, alpha=0.5)
            for value, marker in zip(drawn, "od|", strict=False):
                panel.plot(value, row, marker=marker, color=colour, markersize=6 if marker != "|" else 10)
            label = " / ".join(f"{value:.3g}" if value < 1000 else f"{value:,.0f}" for value in values)
            panel.annotate(label, (drawn[-1], row), (7, 0), textcoords="offset points", va="center")
        panel.set_yticks(range(len(of_one)), [one.label for one in of_one])
        _rows(panel, len(of_one))
    axes[-1].set_xscale("log")
    low, high = axes[-1].get_xlim()
    axes[-1].set_xlim(low, high * 4)
    _thousands(axes[-1].xaxis)
    latest = ", latest |" if any(one.latest is not None for of_one in ranges.values() for one in of_one) else ""
    axes[-1].set_xlabel(f"milliseconds late (logarithmic): median ●, 99th percentile ◆{latest}")
    return page


def backlog(lines: list[Line]) -> Page | None:
    """Plot on two logarithmic scales: what does not depend on the backlog is flat."""
    if not lines:
        return None
    page, panel = plt.subplots(figsize=(WIDTH, 4), layout="constrained")
    for line, colour in zip(lines, _colours(lines), strict=True):
        # Labels at the lines' ends would overlap.
        label = f"{line.label}: {line.ys[0]:.3g} to {line.ys[-1]:.3g} ms"
        panel.plot(line.xs, line.ys, marker="o", markersize=4, color=colour, label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    lowest, highest = min(min(line.ys) for line in lines), max(max(line.ys) for line in lines)
    panel.set_ylim(min(0.1, lowest / 2), max(10.0, highest * 2))
    _thousands(panel.xaxis)
    _thousands(panel.yaxis)
    panel.set_xlabel("tasks that wait for later (logarithmic)")
    panel.set_ylabel("ms to read the agenda and claim 100 (logarithmic)")
    page.legend(loc="outside lower center", frameon=False, ncols=2)
    return page


STORM = ("seconds since the first of the storm was due", "started in each 0.1 s")
MEMORY = ("seconds since the drain began", "resident, MB")
SUSTAINED = ("seconds since the load began", "lateness, ms p99")


def over_time(lines: list[Line], x: str, y: str) -> Page | None:
    """A panel for each database; values over seconds, on scales from zero."""
    if not lines:
        return None
    page, axes = panels([HIGH] * len(lines))
    for panel, line in zip(axes, lines, strict=True):
        panel.set_title(line.label)
        panel.fill_between(line.xs, line.ys, step="post", color=COLOURS[PRODUCT], alpha=0.25, linewidth=0)
        panel.step(line.xs, line.ys, where="post", linewidth=1, color=COLOURS[PRODUCT])
        panel.set_ylim(bottom=0)
        panel.set_ylabel(y)
        _thousands(panel.yaxis)
    axes[-1].set_xlim(left=0)
    axes[-1].set_xlabel(x)
    return page


def _rows(panel: Axes, rows: int) -> None:
    """Rows from the top, with vertical lines only."""
    panel.set_ylim(rows - 0.5, -0.5)
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)


def _thousands(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}")
    axis.set_minor_formatter(lambda value, _: "")


def _colours(lines: Sequence[Line]) -> list[str]:
    return [LINES[number % len(LINES)] for number in range(len(lines))]

"""What the documentation shows of a run: figures as JSON, tables, plots. ``python -m benchmarks.publish FILE`` takes
the figures that an earlier run wrote.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import cases, report, series
from benchmarks.figures import Figures, read

FOLDER = Path("docs/benchmarks")


def publish(figures: Figures, about: Mapping[str, Any], folder: Path = FOLDER) -> list[Path]:
    """The files that were written; ``results.json`` and ``results.md`` are among them."""
    from benchmarks import plots

    figures.write(folder / "results.json", dict(about))
    (folder / "results.md").write_text(page(figures, about))
    return [folder / "results.json", folder / "results.md", *plots.draw(figures, series.read(), folder)]


def page(figures: Figures, about: Mapping[str, Any]) -> str:
    """Both tables, and what they were measured on."""
    measured = {figure.case for figure in figures.values}
    goals = [goal for name in cases.NAMES if name in measured for goal in cases.case_of(name).GOALS]
    return "\n".join(
        [
            "# Results of the benchmarks", "", machine(about), "",
            "## Goals", "", report.goals_table(goals, figures), "",
            "## Figures", "", report.figures_table(figures), "",
        ]
    )  # fmt: skip


def machine(about: Mapping[str, Any]) -> str:
    """One line about it."""
    versions = [f"Python {about['python']}", f"Django {about['django']}", *about.get("databases", ())]
    times = "once" if about["repeats"] == 1 else f"{about['repeats']} times"
    quick = " A quick run: a tenth of the usual size, rough figures." if about["quick"] else ""
    return f"Measured {times} on {about['processors']} processors with {', '.join(versions)}.{quick}"


if __name__ == "__main__":
    for path in publish(*read(Path(sys.argv[1]))):
        print(path)

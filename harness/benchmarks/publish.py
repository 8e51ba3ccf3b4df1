"""What the documentation shows of a run: figures as JSON, tables, plots.

``python -m harness.benchmarks.publish FILE…`` takes the figures that earlier runs wrote, on the same machine.
"""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.benchmarks import cases, report, series, summary
from harness.benchmarks.figures import Figures, read

FOLDER = Path("docs/benchmarks")
BEFORE = FOLDER / "limits-before.json"
"""Figures of limits before lanes, which cannot be measured any more: its "about" says where they come from."""

PLOTS = {
    "drain": "Tasks per second, next to a lean pipeline and other queues",
    "lateness": "Milliseconds late: median, 99th percentile and latest, on four databases and next to Celery",
}
"""The plots below the summary, and what they show."""

WORDS = {
    "goal": "compares one measured value with a bound; a value with × is divided by that of the subject it is compared "
    "with. Values are rounded for display, and compared before that",
    "django-delayed-tasks": "in *compared with*, another variant of this library, such as one without a limit",
    "lean pipeline": "a program of a hundred lines with only the statements that the work needs",
    "raw SQL": "the statements alone, sent with the database's driver",
    "drain": "executors run tasks that are all due when they start, until none is left",
    "known ahead, added at once": "tasks that were added before they became due; tasks that another process adds, due "
    "at once. Latenesses in the sentences above are rounded up",
    "storm": "100,000 tasks become due within one second",
    "for later": "tasks that are not due yet, on 1 or 50 levels; a level is a queue and priority with waiting tasks",
    "agenda": "the query for the earliest time of each level, which comes before each claim",
    "of what is allowed": "runs per second, divided by the number that the limit or the threads allow",
    "neighbors": "tasks without a limit, added while a backlog waits for the named limit. The goal compares the 99th "
    "percentile of their lateness with that of such tasks without a backlog",
    "observed": "the rate with the named parts, divided by the rate with none",
    "purge pinned": "an old snapshot keeps the database from clearing away finished rows",
}
"""The words of the table of goals that a reader cannot know, and what they mean."""


def publish(figures: Figures, about: Mapping[str, Any], folder: Path = FOLDER) -> list[Path]:
    """The files that were written; ``results.json`` and ``results.md`` are among them."""
    from harness.benchmarks import plots

    figures.write(folder / "results.json", dict(about))
    (folder / "results.md").write_text(page(figures, about))
    return [
        folder / "results.json",
        folder / "results.md",
        *plots.draw(figures, series.read(), folder, read(BEFORE)[0]),
    ]


def page(figures: Figures, about: Mapping[str, Any]) -> str:
    """Return the summary with its plots, what it was measured on, the words of the tables, and the tables."""
    measured = {figure.case for figure in figures.values}
    goals = [goal for name in cases.NAMES if name in measured for goal in cases.case_of(name).GOALS]
    return "\n".join(
        [
            "# Results: throughput and lateness", "",
            *(paragraph for one in summary.sentences(figures, goals) for paragraph in (wrapped(one), "")),
            *(line for plot, alt in PLOTS.items() for line in (f"![{alt}]({plot}.svg)", "")),
            machine(about, figures), "",
            "## Words", "", *(wrapped(f"- **{word}**: {meaning}.", "  ") for word, meaning in WORDS.items()), "",
            "## Goals", "", report.goals_table(goals, figures), "",
            "## Figures", "", report.figures_table(figures), "",
        ]
    )  # fmt: skip


def machine(about: Mapping[str, Any], figures: Figures) -> str:
    """Return a sentence about the machine, and about how often a figure was measured."""
    versions = [f"Python {about['python']}", f"Django {about['django']}", *about.get("databases", ())]
    turns = [len(values) for values in figures.values.values()]
    few, many = times_of(min(turns)), times_of(max(turns))
    times = many if few == many else f"{few} to {many}"
    quick = " A quick run: a tenth of the usual size, rough figures." if about["quick"] else ""
    text = f"Measured {times} on {about['processors']} processors with {', '.join(versions)}.{quick}"
    return wrapped(text)


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of the width of the documentation, all but the first with this indent."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def times_of(repeats: int) -> str:
    return "once" if repeats == 1 else f"{repeats} times"


def together(paths: Sequence[Path]) -> tuple[Figures, dict[str, Any]]:
    """The figures of several runs, and what they were measured on."""
    figures, about = read(paths[0])
    for path in paths[1:]:
        more, of_more = read(path)
        figures.merge(more)
        about["quick"] = about["quick"] or of_more["quick"]
        for key in ("databases", "repeats"):
            about[key] = list(dict.fromkeys([*about[key], *of_more[key]]))
    return figures, about


if __name__ == "__main__":
    for path in publish(*together([Path(name) for name in sys.argv[1:]])):
        print(path)

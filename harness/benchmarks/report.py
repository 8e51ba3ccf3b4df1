"""The tables that the suite prints."""

from collections.abc import Iterable, Sequence

from harness.benchmarks.figures import Figures
from harness.benchmarks.goals import Goal, measured

Row = Sequence[str]


def figures_table(figures: Figures) -> str:
    """Return the table of all figures: median, lowest and highest; then what was not measured, and why."""
    rows = [("case", "database", "subject", "variant", "median", "lowest – highest", "unit")]
    for figure in figures.values:
        spread = figures.spread(figure)
        assert spread
        rows.append(
            (figure.case, figure.database, figure.subject, figure.variant, number(spread.median),
             f"{number(spread.lowest)} – {number(spread.highest)}", figure.unit)
        )  # fmt: skip
    for (case, database, subject), why in figures.missing.items():
        rows.append((case, database, subject, "", "not measured", " ".join(why.replace("|", "/").split()), ""))
    return markdown(rows)


def goals_table(goals: Iterable[Goal], figures: Figures) -> str:
    """Return the table of all goals that were measured: the goal, what was reached, and whether that is enough."""
    rows = [("case", "database", "compared with", "wanted", "is", "")]
    for goal, value in measured(goals, figures):
        bound = f"{'≤' if goal.is_most else '≥'} {number(goal.bound)} {goal.unit}"
        others = " / ".join(dict.fromkeys(figure.subject for figure in goal.to))
        verdict = "met" if goal.is_met(value) else "MISSED"
        rows.append((goal.row, goal.of.database, others, bound, f"{number(value)} {goal.unit}", verdict))
    return markdown(rows)


def number(value: float) -> str:
    """Return the number with its significant digits only."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def markdown(rows: Sequence[Row]) -> str:
    """A table whose columns also line up as plain text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)

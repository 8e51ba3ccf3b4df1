"""The overview with colors, drawn by rich, which is an optional extra."""

from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from django_delayed_tasks.management import status_texts
from django_delayed_tasks.stats import Overview
from django_delayed_tasks.stats.tables import Table, Tables

STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def drawn(seen: Overview, width: int | None = None) -> str:
    """Return everything as text with the terminal's codes for colors."""
    console = Console(file=StringIO(), force_terminal=True, width=width or Console().width, highlight=False)
    console.print(Text(status_texts.summary(seen), style="bold"))
    for problem in seen.problems:
        text, advice = problem.text, problem.advice
        console.print(Text(text, style=STYLES[problem.level]), Text(advice, style="dim"))
    for line, text in status_texts.forecasts(seen):
        console.print(Text(line, style="cyan"), Text(text))
    for table in Tables(seen):
        if table.rows:
            console.print(_drawn(table))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def _drawn(table: Table) -> Drawn:
    style: Any = {"title_justify": "left", "title_style": "bold", "box": None, "pad_edge": False, "header_style": "dim"}
    drawn = Drawn(*status_texts.labels(table), title=table.title, **style)
    for row in status_texts.cells(table):
        drawn.add_row(*(Text(cell.line, style="bold red" if cell.kind == "alarm" else "") for cell in row))
    return drawn

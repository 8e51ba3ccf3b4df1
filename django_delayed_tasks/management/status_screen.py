"""The overview with colors, drawn by rich, which is an optional extra."""

from collections.abc import Sequence
from io import StringIO

from django.utils.translation import gettext as _
from rich.console import Console
from rich.table import Table
from rich.text import Text

from django_delayed_tasks.management import status_texts
from django_delayed_tasks.stats import Overview
from django_delayed_tasks.support.visible import visible

STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def drawn(seen: Overview, width: int | None = None) -> str:
    """Return everything as text with the terminal's codes for colors."""
    console = Console(file=StringIO(), force_terminal=True, width=width or Console().width, highlight=False)
    console.print(Text(status_texts.summary(seen), style="bold"))
    for problem in seen.problems:
        text, advice = visible(problem.text), visible(problem.advice)
        console.print(Text(text, style=STYLES[problem.level]), Text(advice, style="dim"))
    for line, text in status_texts.forecasts(seen):
        console.print(Text(line, style="cyan"), Text(text))
    for title, head, rows in status_texts.tables(seen):
        if rows:
            console.print(_table(title, head, rows))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for name in head:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(visible(cell), style=_style(cell)) for cell in row))
    return table


def _style(cell: str) -> str:
    return "bold red" if cell == _("no executor") else ""

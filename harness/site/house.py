"""The house as a picture and a table, read from the floors that a test holds the package to, and from docstrings."""

import ast
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from harness import ROOT
from harness.site.mermaid import picture

PACKAGE = ROOT / "django_delayed_tasks"

Floors = Sequence[Sequence[str]]
"""The units of each floor, from the lowest up."""


class House(SphinxDirective):
    """The picture of ``house_floors``, of the configuration, and a table of what each unit is for."""

    def run(self) -> list[nodes.Node]:
        floors: Floors = self.config.house_floors
        return [picture(drawing(floors)), *self.parse_text_to_nodes("\n".join(table(floors)))]


def drawing(floors: Floors) -> str:
    """Return the house in Mermaid, the highest floor on top."""
    storeys = [f'"{span(numbers)}: {", ".join(names)}"' for names, numbers in merged(floors)][::-1]
    boxes = [f"    box{place}[{text}]" for place, text in enumerate(storeys)]
    below = [f"    box{place} --> box{place + 1}" for place in range(len(storeys) - 1)]
    title = "accTitle: The floors of the package: each imports only what is on the floors below it."
    return "\n".join(["flowchart TB", f"    {title}", *boxes, *below])


def merged(floors: Floors) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """Yield the folders and modules at the top of the package by floors; floors with the same ones are one."""

    def tops(number: int) -> tuple[str, ...]:
        return tuple(sorted({path_of(unit.partition(".")[0]) for unit in floors[number]}))

    for names, numbers in groupby(range(len(floors)), key=tops):
        yield names, list(numbers)


def span(numbers: list[int]) -> str:
    """Return the numbers of consecutive floors."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def table(floors: Floors) -> Iterator[str]:
    """Write a row for each unit, with the first line of its docstring."""
    yield from ["| floor | unit | what it is |", "|---|---|---|"]
    for number, units in list(enumerate(floors))[::-1]:
        yield from (f"| {number} | `{path_of(unit)}` | {purpose(unit)} |" for unit in units)


def path_of(unit: str) -> str:
    """Return the path of a unit in the package; that of a folder ends with a slash."""
    path = unit.replace(".", "/")
    return f"{path}/" if (PACKAGE / path).is_dir() else f"{path}.py"


def purpose(unit: str) -> str:
    """Return the first line of the docstring of a module or a folder."""
    path: Path = PACKAGE / path_of(unit)
    source = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_config_value("house_floors", (), "env")
    app.add_directive("house", House)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

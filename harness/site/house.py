"""The house as a picture and a table, read from the floors that a test holds the package to, and from docstrings."""

import ast
from collections.abc import Iterator, Sequence
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
    """Return the house in Mermaid: a box for each floor, the highest on top."""
    numbered = list(enumerate(floors))[::-1]
    boxes = [f'    floor{number}["{number}: {", ".join(map(path_of, units))}"]' for number, units in numbered]
    below = [f"    floor{number} --> floor{number - 1}" for number, _ in numbered[:-1]]
    title = "accTitle: The floors of the package: each imports only what is on the floors below it."
    return "\n".join(["flowchart TB", f"    {title}", *boxes, *below])


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

"""The house as a picture and tables, read from the contracts on imports in ``pyproject.toml``, and from docstrings."""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from harness import ROOT
from harness.site.mermaid import picture

PACKAGE = "django_delayed_tasks"
PROJECT = ROOT / "pyproject.toml"

Floors = Sequence[Sequence[str]]
"""The units of each floor, from the lowest up."""


class House(SphinxDirective):
    """The picture of the floors of the package, and a table of what each unit is for, also in folders with floors."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(PROJECT))
        floors = floors_by_folder()
        tables = [line for folder in floors for line in (*table(folder, floors[folder]), "")]
        return [picture(drawing(floors[PACKAGE])), *self.parse_text_to_nodes("\n".join(tables))]


def floors_by_folder() -> dict[str, Floors]:
    """Return the floors of the package, and of its folders that have floors of their own, by dotted name."""
    contracts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return {
        folder: [re.split(" [:|] ", layer) for layer in reversed(contract["layers"])]
        for contract in contracts
        for folder in contract.get("containers", ())
    }


def drawing(floors: Floors) -> str:
    """Return the house in Mermaid, the highest floor on top."""
    storeys = [
        f"{number}: {', '.join(path_of(PACKAGE, unit) for unit in units)}" for number, units in enumerate(floors)
    ]
    boxes = [f'    box{number}["{text}"]' for number, text in list(enumerate(storeys))[::-1]]
    below = [f"    box{number} --> box{number - 1}" for number in range(len(storeys) - 1, 0, -1)]
    title = "accTitle: The floors of the package: each imports only what is on the floors below it."
    return "\n".join(["flowchart TB", f"    {title}", *boxes, *below])


def table(folder: str, floors: Floors) -> Iterator[str]:
    """Write a row for each unit of a folder, with the first line of its docstring."""
    yield from [f"| floor | unit of `{folder.replace('.', '/')}/` | what it is |", "|---|---|---|"]
    for number, units in list(enumerate(floors))[::-1]:
        yield from (f"| {number} | `{path_of(folder, unit)}` | {purpose(folder, unit)} |" for unit in units)


def path_of(folder: str, unit: str) -> str:
    """Return the path of a unit in its folder; that of a folder ends with a slash."""
    return f"{unit}/" if (ROOT.joinpath(*folder.split(".")) / unit).is_dir() else f"{unit}.py"


def purpose(folder: str, unit: str) -> str:
    """Return the first line of the docstring of a module or a folder."""
    path: Path = ROOT.joinpath(*folder.split("."), path_of(folder, unit))
    source = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("house", House)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

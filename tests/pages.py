"""Reads the pages of the documentation: links, tables, examples."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
ALL = [README, ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGE = "django_delayed_tasks"

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
LINK = re.compile(r"\[([^]]+)]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Link:
    """A link to another page, or to a place on a page."""

    page: Path
    text: str
    target: str

    @property
    def file(self) -> Path:
        path = self.target.partition("#")[0]
        return (self.page.parent / path).resolve() if path else self.page

    def leads_somewhere(self) -> bool:
        """Whether there is such a file inside the project, with such a heading."""
        place = self.target.partition("#")[2]
        if not self.file.is_relative_to(ROOT) or not self.file.exists():
            return False
        return not place or place in anchors(self.file)


@dataclass(frozen=True)
class Block:
    """A fenced example."""

    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that its first line names, as in ``# shop/models.py``, maybe with a comma and more; or nothing."""
        found = re.match(r"# (\S+\.py)(?:, .*)?\n", self.text)
        return found[1] if found else ""

    def problems(self) -> Iterator[str]:
        """Names that it imports from the package and that do not exist; SyntaxError if it is no Python."""
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == PACKAGE:
                module = import_module(str(node.module))
                yield from (f"{node.module}.{alias.name}" for alias in node.names if not hasattr(module, alias.name))


def blocks(page: Path, *languages: str) -> list[Block]:
    """The examples in these languages (none named: in all), in order."""
    found = [Block(*match) for match in FENCE.findall(page.read_text())]
    return [block for block in found if not languages or block.language in languages]


def prose(page: Path) -> str:
    """The page without its examples."""
    return FENCE.sub("", page.read_text())


def links(page: Path) -> list[Link]:
    """Links to files, not to the web."""
    return [Link(page, *match) for match in LINK.findall(prose(page)) if "://" not in match[1]]


def reachable(start: Path) -> set[Path]:
    """The pages that links lead to from this one, and the page itself."""
    found, waiting = set[Path](), [start]
    while waiting:
        page = waiting.pop()
        if page not in found and page in ALL:
            found.add(page)
            waiting += [link.file for link in links(page)]
    return found


def anchors(page: Path) -> set[str]:
    """Return what may follow # in a link to the page, as GitHub makes it from the headings."""
    titles = [title for _, title in HEADING.findall(prose(page))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def section(page: Path, title: str) -> str:
    """Return the text under the heading, up to the next one of any level."""
    _, found, rest = prose(page).partition(f"# {title}\n")
    assert found, f"{page.name} has no heading {title!r}"
    return HEADING.split(rest)[0]


def rows(page: Path, title: str) -> list[list[str]]:
    """The cells of the first table under the heading, without the table's head."""
    lines = [line for line in section(page, title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(table: list[list[str]]) -> set[str]:
    """Return the names in backticks in the first column."""
    return {name for row in table for name in re.findall(r"`([^`]+)`", row[0])}

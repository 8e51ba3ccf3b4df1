"""The navigation of the site: below an index page are the pages that its list has, each under the heading of its list.

So the pages stay plain Markdown, and a page that is listed is in the navigation.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath

from sphinx.application import Sphinx

LISTS = {
    "docs/index": "docs/contents",
    "docs/examples/README": "docs/examples/README",
    "docs/decisions/README": "docs/decisions/README",
}
"""The page that lists the pages below an index page."""
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
# The link at the beginning of a bullet, whose text is the entry, or of a row, where the title of the page is.
BULLET = re.compile(r"^- \[([^]]+)]\(([^)#\s]+)\.md\)", re.MULTILINE)
ROW = re.compile(r"^\| \[[^]]+]\(([^)#\s]+)\.md\)", re.MULTILINE)


def add_tables_of_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append a hidden table of contents for each section to the source of an index page."""
    if name in LISTS:
        listing = app.env.doc2path(LISTS[name])
        app.env.note_dependency(str(listing))
        text = listing.read_text(encoding="utf-8")
        source[0] += "".join(table(name, title, section) for title, section in sections(text))


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Return the sections of a page with their titles; the title of what comes before the first one is empty."""
    first, *rest = SECTION.split(text)
    yield "", first
    yield from zip(rest[::2], rest[1::2], strict=True)


def table(page: str, title: str, text: str) -> str:
    """Return the directive for the pages that a section lists; nothing if it lists none."""
    folder = PurePosixPath(page).parent
    entries = [f"{words} </{normpath(folder / target)}>" for words, target in BULLET.findall(text)]
    entries += [f"/{normpath(folder / target)}" for target in ROW.findall(text)]
    caption = [f":caption: {title}"] if title else []
    return "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *entries, "```", ""]) if entries else ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", add_tables_of_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

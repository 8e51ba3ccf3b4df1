"""Links to files of the repository that are no pages, such as tests: each gets a page that shows it."""

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx

FOLDER = "source/"


def link_to_sources(app: Sphinx, document: nodes.document) -> None:
    """Let the links to files, which are downloads by themselves, lead to their pages."""
    for link in list(document.findall(addnodes.download_reference)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(app.env.docname), link["reftarget"]))
        shown(app).add(target)
        uri = posixpath.relpath(f"{FOLDER}{target}.html", posixpath.dirname(app.env.docname) or ".")
        reference = nodes.reference("", "", *link.children, refuri=uri, internal=True)
        link.replace_self(reference)


def shown(app: Sphinx) -> set[str]:
    """Return the files that links lead to, which Sphinx keeps with the pages for the next build."""
    found: set[str] = app.env.__dict__.setdefault("ddt_source_files", set())
    return found


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each of these files."""
    for name in sorted(shown(app)):
        body = f"<h1>{name}</h1>{highlighted(Path(app.srcdir) / name)}"
        yield f"{FOLDER}{name}", {"title": name, "body": body}, "page.html"


def highlighted(path: Path) -> str:
    """Return the file as HTML."""
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    code: str = highlight(path.read_text(encoding="utf-8"), lexer, HtmlFormatter(linenos="inline", wrapcode=True))
    return code


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-read", link_to_sources)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

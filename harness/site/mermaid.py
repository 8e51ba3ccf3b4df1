"""Pictures in Mermaid, which a forge draws by itself; here they are drawn at build time, for light and dark."""

import json
import re
from base64 import b64encode
from html import escape

import mmdr
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

THEMES = {"only-light": "default", "only-dark": "dark"}
"""The theme of Mermaid by the class of the site's theme that shows the picture in this mode only."""
FONTS = "Arial, Helvetica, Liberation Sans, DejaVu Sans Condensed, sans-serif"
"""All of about the same width: boxes are drawn for it, and texts by the reader's browser."""
PAGES = {"default": "#ffffff", "dark": "#131416"}
"""The background of the page, of which a label on a line covers the line."""
SIZE = re.compile(r'viewBox="\S+ \S+ (\d+)')
TITLE = re.compile(r"^\s*accTitle: (.+)$", re.MULTILINE)


class Mermaid(SphinxDirective):
    """A fenced block of Mermaid; its ``accTitle`` says what the picture shows."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        source = "\n".join(self.content)
        if not TITLE.search(source):
            raise self.error("the picture has no accTitle, which readers who cannot see it are told")
        return [picture(source)]


def picture(source: str) -> nodes.raw:
    """Return the picture as HTML, for light and for dark."""
    title = TITLE.search(source)
    alt = escape(title[1] if title else "", quote=True)
    images = [image(drawn(source, theme), alt, mode) for mode, theme in THEMES.items()]
    return nodes.raw("", f'<div class="picture">{"".join(images)}</div>', format="html")


def image(svg: str, alt: str, mode: str) -> str:
    """Return the element for a drawing, which is part of the page and as wide as it was drawn."""
    width = SIZE.search(svg)
    assert width, "a drawing has a size"
    url = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return f'<img class="{mode}" width="{width[1]}" alt="{alt}" src="{url}">'


def drawn(source: str, theme: str) -> str:
    """Return the picture as SVG."""
    variables = {"fontFamily": FONTS, "edgeLabelBackground": PAGES[theme]}
    options = {"theme": theme, "fontFamily": FONTS, "themeVariables": variables}
    flowchart = {"flowchart": {"nodeSpacing": 60, "rankSpacing": 55, "wrappingWidth": 420}}
    svg: str = mmdr.render(f"%%{{init: {json.dumps(options | flowchart)}}}%%\n{source}").svg()
    return svg


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

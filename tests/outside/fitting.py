"""Says which pages of a folder do not fit a screen or a phone, or lack a picture, in a real browser."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

from harness.browser import chromium

WIDTHS = (1280, 390)
PATIENCE = 60  # seconds

LOOK = """
const [page, widths, done] = arguments;
const frame = document.createElement("iframe");
frame.style = "border: 0; height: 900px";
frame.style.width = `${widths[0]}px`;
frame.src = page;
frame.onload = () => {
  const seen = widths.map(width => {
    frame.style.width = `${width}px`;
    const shown = frame.contentDocument;
    const pictures = [...shown.images].filter(picture => picture.getClientRects().length);
    const missing = pictures.filter(picture => !picture.naturalWidth).map(picture => picture.src.slice(0, 200));
    const code = [...shown.querySelectorAll("div[class*='highlight-'] pre")];
    const cut = code.filter(block => block.scrollWidth > block.clientWidth).map(block => block.innerText.slice(0, 100));
    return [shown.documentElement.scrollWidth, missing, cut];
  });
  frame.remove();
  done(seen);
};
document.body.append(frame);
"""
"""Open a page once, in a frame as wide as a screen and then as a phone, which takes a third of the time that windows
take: for each width, how wide the page is, which of the pictures that it shows could not be loaded, and which blocks of
code are wider than their column."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the folder on this machine; yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def problems(folder: Path, pages: Sequence[Path]) -> dict[str, list[str]]:
    """Return what is wrong with pages of this folder, without those that are right."""
    wrong: dict[str, list[str]] = {}
    (folder / "blank.html").write_text("<!doctype html><title>frames</title>")
    with served(folder) as address, chromium(max(WIDTHS)) as chrome:
        chrome.set_script_timeout(PATIENCE)
        chrome.get(f"{address}/blank.html")
        for page in pages:
            if found := list(told(chrome, f"/{page.relative_to(folder)}")):
                wrong[str(page.relative_to(folder))] = found
    return wrong


def told(chrome: Chrome, path: str) -> Iterator[str]:
    """Yield what is wrong with one page."""
    for width, (wide, missing, cut) in zip(WIDTHS, chrome.execute_async_script(LOOK, path, WIDTHS), strict=True):
        if wide > width:
            yield f"{wide} pixels wide at {width}"
        yield from (f"no picture at {width}: {source}" for source in missing)
        if width == max(WIDTHS):  # on a phone it scrolls
            yield from (f"code is cut at {width}: {code}" for code in cut)

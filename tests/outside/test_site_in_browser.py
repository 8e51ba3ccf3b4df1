"""Every page of the site fits a screen and a phone, and shows all its pictures, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from harness.browser import chromium, resize

SCREEN, PHONE = 1280, 390

LOOK = """
const pictures = [...document.images].filter(one => !one.closest("[hidden]") && one.getClientRects().length);
return {
  width: document.documentElement.scrollWidth,
  missing: pictures.filter(one => one.complete && !one.naturalWidth).map(one => one.src.slice(0, 200)),
};
"""
"""The width that can be scrolled to, in pixels, and the pictures that are shown but could not be loaded."""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with chromium(SCREEN) as browser:
        yield browser


def problems(chrome: Chrome, width: int) -> Iterator[str]:
    """Yield what is wrong with the page that is open, at this width."""
    resize(chrome, width)
    seen: dict[str, Any] = chrome.execute_script(LOOK)
    if seen["width"] > width:
        yield f"{seen['width']} pixels wide at {width}"
    yield from (f"no picture at {width}: {source}" for source in seen["missing"])


def test_every_page_fits_and_has_its_pictures(site: Path, chrome: Chrome) -> None:
    wrong: dict[str, list[str]] = {}
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        resize(chrome, SCREEN)
        chrome.get(page.as_uri())
        if found := [*problems(chrome, SCREEN), *problems(chrome, PHONE)]:
            wrong[str(page.relative_to(site))] = found
    assert wrong == {}


def test_a_page_that_is_too_wide_or_lacks_a_picture_is_noticed(tmp_path: Path, chrome: Chrome) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><meta name="viewport" content="width=device-width">'
        '<div style="width: 500px">wide</div><img src="missing.png">'
    )
    chrome.get(page.as_uri())
    assert list(problems(chrome, SCREEN)) == [f"no picture at {SCREEN}: {page.parent.as_uri()}/missing.png"]
    assert "pixels wide at 390" in next(problems(chrome, PHONE))

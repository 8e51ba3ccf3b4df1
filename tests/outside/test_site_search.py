"""The search of the site, in a real browser: the page that answers is among the first three."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from selenium.webdriver import Chrome

from harness.browser import chromium
from tests.outside.browser import wait
from tests.outside.fitting import served
from tests.outside.searched import ANSWERS

FEW = 2
"""Queries that may be answered further down."""
FINISHED = "return document.querySelector('.search-summary')?.innerText.startsWith('Search finished')"
FOUND = "return [...document.querySelectorAll('ul.search > li > a')].map(link => new URL(link.href).pathname)"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


def test_the_page_that_answers_is_among_the_first_three(address: str) -> None:
    with chromium() as chrome:
        found = {query: pages_found(chrome, address, query) for query in ANSWERS}
    missed = {query: pages[:3] for query, pages in found.items() if ANSWERS[query] not in pages[:3]}
    assert len(missed) <= FEW, missed


def test_what_is_on_no_page_is_not_found(address: str) -> None:
    with chromium() as chrome:
        chrome.get(f"{address}/search.html?q=zyzzyva")
        wait(chrome, lambda page: "did not match any documents" in page.page_source, "the search has ended")
        assert chrome.execute_script(FOUND) == []


def pages_found(chrome: Chrome, address: str, query: str) -> list[str]:
    """Return the pages that the search shows, each once, in their order, without "/docs/" and ".html"."""
    chrome.get(f"{address}/search.html?{urlencode({'q': query})}")
    wait(chrome, lambda page: page.execute_script(FINISHED), f"the search for {query} has ended")
    paths = chrome.execute_script(FOUND)
    return list(dict.fromkeys(path.removeprefix("/docs/").removesuffix(".html") for path in paths))

"""The search of the site, in a real browser: the page that answers is among the first three."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from harness.browser import chromium
from tests.outside.browser import wait
from tests.outside.fitting import served
from tests.outside.searched import ANSWERS

FEW = 2
"""Queries that may be answered further down."""
SEARCH = """
document.getElementById("search-results").replaceChildren();
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;  // it would fetch each page that is found
Search.performSearch(arguments[0]);
"""
FINISHED = "return /^(Search finished|Your search did not)/.test(document.querySelector('.search-summary')?.innerText)"
FOUND = "return [...document.querySelectorAll('ul.search > li > a')].map(link => new URL(link.href).pathname)"


@pytest.fixture(scope="module")
def searching(site: Path) -> Iterator[Chrome]:
    """The browser with the page of the search."""
    with served(site) as address, chromium() as chrome:
        chrome.get(f"{address}/search.html")
        yield chrome


def test_the_page_that_answers_is_among_the_first_three(searching: Chrome) -> None:
    found = {query: pages_found(searching, query) for query in ANSWERS}
    missed = {query: pages[:3] for query, pages in found.items() if ANSWERS[query] not in pages[:3]}
    assert len(missed) <= FEW, missed


def test_what_is_on_no_page_is_not_found(searching: Chrome) -> None:
    assert pages_found(searching, "zyzzyva") == []


def pages_found(chrome: Chrome, query: str) -> list[str]:
    """Return the pages that the search shows, each once, in their order, without "/docs/" and ".html"."""
    chrome.execute_script(SEARCH, query)
    wait(chrome, lambda page: page.execute_script(FINISHED), f"the search for {query} has ended")
    paths = chrome.execute_script(FOUND)
    return list(dict.fromkeys(path.removeprefix("/docs/").removesuffix(".html") for path in paths))

"""A small web of 150 pages, in place of the real one."""

from time import sleep

PAGES = 150
MISSING = 13
START = "https://example.com/pages/1"


class NotFound(Exception):
    """There is no such page."""


def fetch(url):
    """Return the title of a page and the URLs that it links to."""
    sleep(0.005)
    number = int(url.partition("?")[0].rpartition("/")[2])
    if number == MISSING:
        raise NotFound(url)
    links = [(number + 1) % PAGES, *((number * 7 + step * 31) % PAGES for step in range(8))]
    return f"Page {number}", [url_of(link) for link in links]


def url_of(number):
    """Return the URL of a page. Every tenth has a long one."""
    url = f"https://example.com/pages/{number}"
    return url if number % 10 else f"{url}?filter={'all,' * 100}"

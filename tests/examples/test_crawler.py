from collections.abc import Callable

from tests.examples.follower import Example


def test_crawler_fetches_each_page_once(copy_of: Callable[[str], Example]) -> None:
    crawler = copy_of("crawler")
    crawler.follow()

    hashed = "Page.objects.filter(key__startswith='sha256:').count()"
    fetched = crawler.evaluate(f"from crawler.models import Page; print(Page.objects.count(), {hashed})")
    assert fetched == "149 15"

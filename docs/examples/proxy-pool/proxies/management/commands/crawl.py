from concurrent.futures import ThreadPoolExecutor

from django.core.management.base import BaseCommand

from proxies.crawling import crawl

CRAWLERS = 25
URLS = ["https://example.com/1", "https://example.com/2"]


class Command(BaseCommand):
    help = "Runs 25 crawlers, each of which fetches two pages."

    def handle(self, **options):
        with ThreadPoolExecutor(CRAWLERS) as threads:
            fetched = sum(threads.map(crawl, [URLS] * CRAWLERS))
        print(f"{CRAWLERS} crawlers have fetched {fetched} pages.")

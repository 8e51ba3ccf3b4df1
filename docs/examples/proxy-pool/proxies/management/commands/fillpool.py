from django.core.management.base import BaseCommand

from proxies.crawling import pool
from proxies.network import ADDRESSES


class Command(BaseCommand):
    help = "Adds the proxies to the pool."

    def handle(self, **options):
        for number, address in enumerate(ADDRESSES, 1):
            pool.add(f"proxy-{number}", {"address": address})
        print(f"Proxies in the pool: {pool.resources().count()}")

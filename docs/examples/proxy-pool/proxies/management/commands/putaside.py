from django.core.management.base import BaseCommand
from django.utils import timezone

from proxies.crawling import pool


class Command(BaseCommand):
    help = "Lists the proxies that are put aside."

    def handle(self, **options):
        broken = pool.resources().filter(holder="", busy_before__gt=timezone.now())
        print("Put aside:", *sorted(proxy.payload["address"] for proxy in broken))

import signal
import sys

from django.core.management.base import BaseCommand

from jobs.feed import read_feed


class Command(BaseCommand):
    help = "Reads the feed, or stands by while another host does, until SIGTERM."

    def add_arguments(self, parser):
        parser.add_argument("host")

    def handle(self, host, **options):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the mutex is released on the way out
        read_feed(host)

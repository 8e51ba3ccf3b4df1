"""``manage.py import_stock FILE``: cron may start it on every server at once."""

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from django_delayed_tasks.leases import ResourceUnavailable
from testproject.shop.services import import_stock


class Command(BaseCommand):
    help = "Reads products from a file with a line 'name;price' for each."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            with file.open(encoding="utf-8") as lines:
                count = import_stock(str(file), lines, self.say_who)
        except ResourceUnavailable:
            return
        self.stdout.write(f"{count} lines imported.")

    def say_who(self, host: str, pid: int, heartbeat: datetime) -> None:
        self.stdout.write(f"Another import is running: {host}, process {pid}, last seen {heartbeat:%H:%M:%S} UTC.")

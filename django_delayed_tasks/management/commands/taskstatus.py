"""``manage.py taskstatus [--watch] [--format json]``: the overview in a terminal."""

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils.translation import gettext as _

from django_delayed_tasks import stats
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.management import status_texts
from django_delayed_tasks.management.shared import text_of
from django_delayed_tasks.stats.overviews import SPANS

CLEAR = "\x1b[H\x1b[2J"


class Command(BaseCommand):
    """Shows what is going on, what comes next and what is wrong."""

    help = "Show what runs, what comes next and what is wrong: the data of the admin's overview."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--watch", action="store_true", help="show it again and again, until Ctrl-C")
        parser.add_argument("--interval", type=float, default=2.0, help="seconds between two looks (default 2)")
        parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
        parser.add_argument(
            "--span", choices=tuple(SPANS), default="hour", help="the time that figures about runs cover (default hour)"
        )
        parser.add_argument("--database", default=None, help="alias of the tasks' database")

    def handle(self, *args: Any, watch: bool, interval: float, **given: Any) -> None:
        if interval <= 0:
            raise CommandError(_("--interval=%s: must be above 0") % f"{interval:g}")
        if not watch:
            self.stdout.write(self._look(**given))
            return
        try:
            self._watch(interval, given)
        except KeyboardInterrupt:
            self.stdout.write("")

    def _watch(self, interval: float, given: dict[str, Any]) -> None:
        is_terminal = self._is_terminal() and given["format"] == "text"
        while True:
            text = self._look(**given)
            self.stdout.write(f"{CLEAR}{text}" if is_terminal else text)
            self.stdout.flush()
            time.sleep(interval)

    def _look(self, format: str, span: Any, database: str | None, **_: Any) -> str:
        try:
            seen = stats.overview(span, using=database)
        except (TaskException, DatabaseError) as error:
            raise CommandError(text_of(error, database)) from None
        if format == "json":
            return json.dumps(seen.as_json(), ensure_ascii=False)
        return self._colored(seen) if self._is_terminal() else status_texts.plain(seen)

    def _is_terminal(self) -> bool:
        return self.stdout.isatty()

    def _colored(self, seen: stats.Overview) -> str:
        try:
            from django_delayed_tasks.management import status_screen
        except ImportError:  # rich is an optional extra
            return status_texts.plain(seen)
        return status_screen.drawn(seen)

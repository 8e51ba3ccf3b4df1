"""``manage.py prunetasks --older-than 7d``: delete old runs from the history at once."""

from argparse import ArgumentParser
from collections.abc import Container
from datetime import timedelta
from typing import Any, cast

from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.executor.process.progress_bar import ProgressBar
from django_delayed_tasks.management.shared import confirm, refuse_unknown, text_of
from django_delayed_tasks.management.streams import SteadyCommand
from django_delayed_tasks.management.tasks.arguments import span
from django_delayed_tasks.store.acceptance import known_code
from django_delayed_tasks.store.records.purging import ALL, count_old, purge
from django_delayed_tasks.store.sql.portions import MAX_PURGED


class Command(SteadyCommand):
    """Deletes runs of the history in small transactions, as executors do; live tasks are not touched."""

    help = "Delete runs that ended long ago from the history, in small transactions."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", type=span, required=True, metavar="SPAN", help="such as 7d, 12h, 2w")
        parser.add_argument("--code", action="append", help="only runs of this code; may be repeated")
        parser.add_argument("--dry-run", action="store_true", help="say how many runs there are, and delete none")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--database", help="alias of the tasks' database")

    def handle(self, *args: Any, older_than: timedelta, **given: Any) -> None:
        if older_than < timedelta():
            raise CommandError(_("--older-than must not be negative"))
        refuse_unknown(given["database"])
        alias = api.database(given["database"])
        try:
            codes = _codes(alias, given["code"])
            count = count_old(alias, older_than, codes, MAX_PURGED)
            if given["dry_run"] or not count:
                self.stdout.write(ngettext("%d run is older.", "%d runs are older.", count) % count)
                return
            asked = ngettext("Delete %d run? This cannot be undone.", "Delete %d runs? This cannot be undone.", count)
            confirm(self, asked % count, yes=given["yes"])
            self._prune(alias, older_than, codes, count)
        except (InvalidTask, DatabaseError) as error:
            raise CommandError(text_of(error, alias)) from None

    def _prune(self, alias: str, older_than: timedelta, codes: Container[str], count: int) -> None:
        self.stdout.ending = ""  # the bar is drawn over itself
        bar = ProgressBar(count, cast(Any, self.stdout), _deleted)
        deleted = position = 0
        is_complete = False
        while not is_complete:
            purged = purge(alias, older_than, codes, position, MAX_PURGED)
            deleted, position, is_complete = deleted + purged.deleted, purged.position, purged.is_complete
            bar.show(deleted)
        bar.close(deleted)


def _deleted(count: int) -> str:
    return ngettext("Deleted: %(runs)s run in %(seconds)s s.", "Deleted: %(runs)s runs in %(seconds)s s.", count)


def _codes(alias: str, names: list[str] | None) -> Container[str]:
    return frozenset(known_code(alias, name) for name in names) if names else ALL

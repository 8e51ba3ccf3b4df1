"""``manage.py importtasks``: move what another library still has to do to tasks of functions."""

from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from django_delayed_tasks.importers.moving import escaped, moved

APPS = {
    "background-tasks": "background_task",
    "django-q2": "django_q",
    "django-tasks-db": "django_tasks_db",
}
"""The app of each library. Its module in ``importers`` has the same name as the library."""


class Command(BaseCommand):
    """Move each row whose function is one of django.tasks; say what was left, and why."""

    help = "Move what another library still has to do to tasks. Repeating it moves what was left before."
    requires_migrations_checks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("library", choices=APPS, help="the library whose rows are moved")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be moved")

    def handle(self, *args: Any, library: str, dry_run: bool, **options: Any) -> None:
        if not apps.is_installed(APPS[library]):
            raise CommandError(_("%s is not in INSTALLED_APPS") % APPS[library])
        source = import_module(f"django_delayed_tasks.importers.{library.replace('-', '_')}")
        results = [self._move(row, source, dry_run) for row in source.rows()]
        count = sum(results)
        self.stdout.write(_message(count, dry_run) % {"count": count, "left": len(results) - count})

    def _move(self, row: Any, source: Any, dry_run: bool) -> bool:
        name = source.name_of(row)
        try:
            what = moved(row, source.move_of, dry_run)
        except Exception as error:  # such as arguments that are no JSON, a trigger that never fires, or a module's own
            why = str(error) or type(error).__name__
            self.stdout.write(escaped(_("%(name)s: left: %(why)s") % {"name": name, "why": why}))
            return False
        text = _("%(name)s: would be moved: %(what)s") if dry_run else _("%(name)s: moved: %(what)s")
        self.stdout.write(escaped(text % {"name": name, "what": what}))
        return True


def _message(count: int, dry_run: bool) -> str:
    if dry_run:
        return _("%(count)d would be moved, %(left)d left.")
    return _("%(count)d moved, %(left)d left.")

"""``manage.py importbeat``: copy the crontab and interval entries of Celery's beat to recurring function tasks."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks import Task
from django_delayed_tasks.handlers import code_named
from django_delayed_tasks.importers.beat import Entry, Recurrence, entries, recurrence_of
from django_delayed_tasks.importers.moving import database, escaped, function_of


class Command(BaseCommand):
    """Copy each enabled entry whose task is a function of django.tasks; say what was left out, and why."""

    help = "Copy the crontab and interval entries of Celery's beat to recurring tasks. Repeating it changes nothing."
    requires_migrations_checks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be copied")
        parser.add_argument("--disable", action="store_true", help="disable what was copied: beat no longer sends it")
        parser.add_argument(
            "--app", metavar="PATH", help="the Celery app whose beat_schedule is copied, such as mysite"
        )

    def handle(self, *args: Any, app: str | None, dry_run: bool, disable: bool, **options: Any) -> None:
        copied = [self._copy(name, read, dry_run, disable) for name, read in entries(app)]
        count = sum(copied)
        self.stdout.write(_message(count, dry_run) % {"count": count, "left": len(copied) - count})

    def _copy(self, name: str, read: Callable[[], Entry], dry_run: bool, disable: bool) -> bool:
        try:
            entry = read()
            function, recurrence = function_of(entry.task), recurrence_of(entry)
            with transaction.atomic():
                if not dry_run:
                    enqueue(name, entry, function, recurrence)
                    _end(entry, disable)
        except Exception as error:  # such as arguments that are no JSON, or a trigger that never fires
            self.stdout.write(escaped(_("%(name)s: left out: %(why)s") % {"name": name, "why": error}))
            return False
        lost = _(", without %s") % ", ".join(entry.lost) if entry.lost else ""
        self.stdout.write(escaped(f"{name}: {recurrence.trigger}{lost}"))
        return True


def _end(entry: Entry, disable: bool) -> None:
    if disable and entry.row is not None:
        entry.row.enabled = False
        entry.row.save()


def _message(count: int, dry_run: bool) -> str:
    if dry_run:
        return ngettext(
            "%(count)d entry would be copied, %(left)d left out.",
            "%(count)d entries would be copied, %(left)d left out.",
            count,
        )
    return ngettext("%(count)d entry copied, %(left)d left out.", "%(count)d entries copied, %(left)d left out.", count)


def enqueue(name: str, entry: Entry, function: Any, recurrence: Recurrence) -> None:
    """Enqueue the function with the entry's arguments and this recurrence, unless it has both already.

    The entry's name identifies it. A task that is there keeps its time: a missed run is not made up for twice.
    """
    using = {"queue_name": entry.queue} if entry.queue else {}
    task = function.using(biz_num=name, trigger=recurrence.trigger, run_after=recurrence.first, **using)
    existing = Task.objects.using(database()).filter(biz_code=code_named(function), biz_num=name).first()
    if existing is None or _described(existing) != (
        str(recurrence.trigger), entry.args, entry.kwargs, task.queue_name,
    ):  # fmt: skip
        task.enqueue(*entry.args, **entry.kwargs)


def _described(task: Task) -> tuple[Any, ...]:
    data = task.biz_ext if isinstance(task.biz_ext, dict) else {}
    return task.trigger_text, data.get("args"), data.get("kwargs"), task.queue

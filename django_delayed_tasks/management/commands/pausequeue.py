"""``manage.py pausequeue NAME [--resume]``: pause a queue in the whole cluster, or resume it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils.translation import gettext as _

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.executor.announcing import unnamed
from django_delayed_tasks.management.shared import refuse_unknown, text_of
from django_delayed_tasks.models import PausedQueue


class Command(BaseCommand):
    """Pause or resume one queue, or list the paused ones."""

    help = "Pause a queue: no executor claims its tasks until it is resumed. Without a name, list the paused queues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the queue")
        parser.add_argument("--resume", action="store_true", help="end the pause")
        parser.add_argument("--database", default=None, help="alias of the tasks' database")

    def handle(self, *args: Any, name: str | None, resume: bool, database: str | None, **options: Any) -> None:
        if name is None and resume:
            raise CommandError(_("which queue? pausequeue NAME --resume"))
        refuse_unknown(database)
        try:
            if name is None:
                self._list(api.database(database))
            else:
                self._change(name, resume, database)
        except (InvalidTask, DatabaseError) as error:
            raise CommandError(text_of(error, database)) from None

    def _change(self, name: str, resume: bool, database: str | None) -> None:
        has_changed = (api.resume_queue if resume else api.pause_queue)(name, using=database)
        self.stdout.write(_message(resume, has_changed) % name)
        if not resume and unnamed(api.database(database), [name]):
            self.stderr.write(_("No task, handler or executor names this queue: is it spelled right?"))

    def _list(self, alias: str) -> None:
        paused = list(PausedQueue.objects.using(alias).order_by("queue"))
        for row in paused:
            self.stdout.write(f"{row}\t{row.paused_at:%Y-%m-%d %H:%M:%S %Z}")
        if not paused:
            self.stderr.write(_("No queue is paused."))


def _message(resume: bool, has_changed: bool) -> str:
    if resume:
        return _("The queue %r is running.") if has_changed else _("The queue %r is running already.")
    return _("The queue %r is paused.") if has_changed else _("The queue %r is paused already.")

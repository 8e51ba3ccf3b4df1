"""``manage.py pausequeue NAME [--resume]``: pause a queue in the whole cluster, or resume it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import PausedQueue


class Command(BaseCommand):
    """Pause or resume one queue, or list those that are paused."""

    help = "Pause a queue: no executor claims its tasks until it is resumed. Without a name, list the paused queues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the queue")
        parser.add_argument("--resume", action="store_true", help="end the pause")
        parser.add_argument("--database", default=None, help="alias of the tasks' database")

    def handle(self, *args: Any, name: str | None, resume: bool, database: str | None, **options: Any) -> None:
        if name is None:
            if resume:
                raise CommandError(_("which queue? pausequeue NAME --resume"))
            self._list(api.database(database))
            return
        try:
            change = api.resume_queue if resume else api.pause_queue
            has_changed = change(name, using=database)
        except InvalidTask as error:
            raise CommandError(str(error)) from None
        self.stdout.write(_told(resume, has_changed) % name)

    def _list(self, alias: str) -> None:
        for paused in PausedQueue.objects.using(alias).order_by("queue"):
            self.stdout.write(f"{paused.queue}\t{paused.paused_at:%Y-%m-%d %H:%M:%S %Z}")


def _told(resume: bool, has_changed: bool) -> str:
    if resume:
        return _("The queue %r is running.") if has_changed else _("The queue %r is running already.")
    return _("The queue %r is paused.") if has_changed else _("The queue %r is paused already.")

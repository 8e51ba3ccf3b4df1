"""``manage.py importbeat``: copy the crontab and interval entries of django-celery-beat to recurring function tasks."""

import json
from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.handlers.named_code import task_named
from django_delayed_tasks.support.visible import visible
from django_delayed_tasks.triggers import Cron, Interval, Trigger


class NotCopied(Exception):
    """An entry has no equivalent; the message says why."""


class Recurrence(NamedTuple):
    """When a copied entry runs: its trigger, and its first time if that is not the trigger's next one."""

    trigger: Trigger
    first: datetime | None


class Command(BaseCommand):
    """Copy each enabled entry whose task is a function of django.tasks; say what was left out, and why."""

    help = (
        "Copy the crontab and interval entries of django-celery-beat to recurring tasks. Repeating it changes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be copied")
        parser.add_argument("--disable", action="store_true", help="disable what was copied: beat no longer sends it")

    def handle(self, *args: Any, dry_run: bool, disable: bool, **options: Any) -> None:
        if not apps.is_installed("django_celery_beat"):
            raise CommandError(_("django_celery_beat is not in INSTALLED_APPS"))
        entries: Any = apps.get_app_config("django_celery_beat").get_model("PeriodicTask")._default_manager
        copied = [self._copy(entry, dry_run, disable) for entry in entries.order_by("name")]
        count = sum(copied)
        self.stdout.write(_message(count, dry_run) % {"count": count, "left": len(copied) - count})

    def _copy(self, entry: Any, dry_run: bool, disable: bool) -> bool:
        try:
            recurrence = recurrence_of(entry)
            with transaction.atomic():
                if not dry_run:
                    enqueue(entry, recurrence)
                    self._end(entry, disable)
        except Exception as error:  # such as arguments that are no JSON, or a trigger that never fires
            self.stdout.write(visible(_("%(name)s: left out: %(why)s") % {"name": entry.name, "why": error}))
            return False
        self.stdout.write(visible(f"{entry.name}: {recurrence.trigger}"))
        return True

    def _end(self, entry: Any, disable: bool) -> None:
        if disable:
            entry.enabled = False
            entry.save()


def _message(count: int, dry_run: bool) -> str:
    if dry_run:
        return ngettext(
            "%(count)d entry would be copied, %(left)d left out.",
            "%(count)d entries would be copied, %(left)d left out.",
            count,
        )
    return ngettext("%(count)d entry copied, %(left)d left out.", "%(count)d entries copied, %(left)d left out.", count)


def enqueue(entry: Any, recurrence: Recurrence) -> None:
    """Enqueue the entry's function with its arguments and this recurrence; the entry's name identifies it."""
    using = {"queue_name": entry.queue} if entry.queue else {}
    task = function_of(entry).using(biz_num=entry.name, trigger=recurrence.trigger, run_after=recurrence.first, **using)
    task.enqueue(*json.loads(entry.args or "[]"), **json.loads(entry.kwargs or "{}"))


def function_of(entry: Any) -> Any:
    """Return the task function of the entry's task.

    Raises:
        NotCopied: there is none of that name.
    """
    try:
        function = task_named(entry.task)
    except ImportError as error:
        raise NotCopied(_("%(task)s cannot be imported: %(error)s") % {"task": entry.task, "error": error}) from None
    if not hasattr(function, "enqueue_on_commit"):
        raise NotCopied(_("%s is not decorated with @task, or TASKS names another backend") % entry.task)
    return function


def recurrence_of(entry: Any) -> Recurrence:
    """Return when an entry runs.

    Raises:
        NotCopied: the entry is disabled or has expired, or is of a kind that has no trigger.
        InvalidTrigger: it has an expression that means nothing here.
    """
    if not entry.enabled:
        raise NotCopied(_("it is disabled"))
    if entry.one_off:
        raise NotCopied(_("it runs only once: enqueue it with run_after"))
    function_of(entry)
    if entry.crontab:
        trigger = cron_of(entry.crontab, _bounds(entry, start=entry.start_time))
        if trigger.next_after(timezone.now()) is None:
            raise _has_expired(entry)
        return Recurrence(trigger, None)
    if entry.interval:
        return _interval(entry)
    raise NotCopied(_("it is neither a crontab nor an interval entry"))


def _bounds(entry: Any, **more: Any) -> dict[str, Any]:
    return {"end": entry.expires, "grace": entry.expire_seconds, **more}


def cron_of(crontab: Any, options: dict[str, Any]) -> Cron:
    """Return the trigger of a crontab entry.

    Raises:
        NotCopied: both fields of days are restricted: Celery wants days that suit both, cron those that suit either.
    """
    if "*" not in (crontab.day_of_month, crontab.day_of_week):
        raise NotCopied(
            _("it restricts the day of the month and the day of the week, which means something else in cron")
        )
    fields = (crontab.minute, crontab.hour, crontab.day_of_month, crontab.month_of_year, crontab.day_of_week)
    expression = " ".join(field.replace(" ", "") for field in fields)
    return Cron(expression, tz=str(crontab.timezone), **options)


def _interval(entry: Any) -> Recurrence:
    """Return the interval, counted from the entry's last run.

    Raises:
        NotCopied: the entry has expired, or will have at its next time.
    """
    period = timedelta(**{entry.interval.period: entry.interval.every})
    trigger = Interval(seconds=period.total_seconds(), **_bounds(entry))
    first = max(entry.last_run_at + period, timezone.now()) if entry.last_run_at else entry.start_time
    if entry.expires and (first or timezone.now()) > entry.expires:
        raise _has_expired(entry)
    return Recurrence(trigger, first)


def _has_expired(entry: Any) -> NotCopied:
    return NotCopied(_("it does not run after %s, when it expires") % entry.expires)

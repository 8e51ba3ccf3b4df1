"""``manage.py taskhealth --max-late 60 --max-failed 10 --executors 1``: an exit code and one line, for probes."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.api import database
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.queue_names import unnamed
from django_delayed_tasks.management.migrations import text_of
from django_delayed_tasks.stats.backlogs import queues_of
from django_delayed_tasks.stats.look import Look, look, serves
from django_delayed_tasks.stats.runs import rates_of
from django_delayed_tasks.support.durations import duration_text

UNHEALTHY = 1
UNKNOWN = 3
"""The exit code if the database cannot be asked."""


class Command(BaseCommand):
    """Tells whether tasks are run in time: the exit code is 0 if they are, 1 if not, 3 if that cannot be known."""

    help = "Say by the exit code and one line whether tasks run in time."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--max-late", type=float, default=60.0, help="seconds that a due task may wait (default 60)"
        )
        parser.add_argument(
            "--max-failed",
            type=int,
            help="runs, in all queues, that may fail for good or be lost in an hour (default: any number)",
        )
        parser.add_argument("--executors", type=int, default=1, help="executors that must be alive (default 1)")
        parser.add_argument("--queue", action="append", help="look at this queue only; may be given several times")
        parser.add_argument("--database", default=None, help="alias of the tasks' database")

    def handle(self, *args: Any, **given: Any) -> None:
        if given["max_late"] < 0:
            raise CommandError(_("--max-late=%s: must not be negative") % f"{given['max_late']:g}")
        try:
            seen = look(given["database"])
            wrong = [*_executors(seen, given), *_late(seen, given), *_failed(seen, given)]
            for queue in unnamed(database(given["database"]), given["queue"] or ()):
                self.stderr.write(_("No task, handler or executor names the queue %r: is it spelled right?") % queue)
            good = _("%(count)d alive, no task is late") % {"count": len(_alive(seen, given["queue"]))}
        except TaskException as error:
            raise CommandError(str(error)) from None
        except Error as error:
            problem = text_of(error, given["database"]).partition("\n")[0] or type(error).__name__
            why = _("the database cannot be asked: %s") % problem
            self.stdout.write(f"UNKNOWN: {why}")
            sys.exit(UNKNOWN)
        self.stdout.write(f"UNHEALTHY: {'; '.join(wrong)}" if wrong else f"OK: {good}")
        if wrong:
            sys.exit(UNHEALTHY)


def _alive(seen: Look, queues: list[str] | None) -> list[str]:
    """Return the names of the live executors, of those that serve one of the queues if some are given."""
    return [one.name for one in seen.alive if queues is None or any(serves(one, queue) for queue in queues)]


def _executors(seen: Look, given: dict[str, Any]) -> Iterator[str]:
    alive = len(_alive(seen, given["queue"]))
    if alive < given["executors"]:
        text = ngettext(
            "%(alive)d executor alive, %(needed)d needed", "%(alive)d executors alive, %(needed)d needed", alive
        )
        yield text % {"alive": alive, "needed": given["executors"]}


def _late(seen: Look, given: dict[str, Any]) -> Iterator[str]:
    most = timedelta(seconds=given["max_late"])
    late = [
        queue
        for queue in queues_of(seen)
        if queue.latency > most and not queue.paused_at and (given["queue"] is None or queue.name in given["queue"])
    ]
    for queue in sorted(late, key=lambda queue: -queue.latency)[:3]:
        values = {"queue": queue.name, "time": duration_text(queue.latency)}
        yield _("queue %(queue)s late by %(time)s") % values


def _failed(seen: Look, given: dict[str, Any]) -> Iterator[str]:
    if given["max_failed"] is None:
        return
    failed = sum(runs.failed for runs in rates_of(seen, timedelta(hours=1)))
    if failed > given["max_failed"]:
        yield ngettext("%d run failed in the last hour", "%d runs failed in the last hour", failed) % failed

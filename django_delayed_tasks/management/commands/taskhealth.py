"""``manage.py taskhealth --max-late 60 --max-failed 10 --executors 1``: an exit code and one line, for probes."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError
from django.db import Error
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.api import database
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.announcing import unnamed
from django_delayed_tasks.management.shared import text_of
from django_delayed_tasks.management.streams import SteadyCommand
from django_delayed_tasks.stats.backlogs import QueueBacklog, queues_of
from django_delayed_tasks.stats.findings import codes_without_handler, limited_text, tasks_text, written_ahead
from django_delayed_tasks.stats.limits import Limited
from django_delayed_tasks.stats.reasons import Reason, closed
from django_delayed_tasks.stats.runs import rates_of
from django_delayed_tasks.stats.snapshot import Snapshot, serves, take_snapshot
from django_delayed_tasks.support.durations import duration_text

MAX_QUEUES = 3
"""The most queues, or codes, that are named for each problem: it is one line."""


class Command(SteadyCommand):
    """Tells whether tasks are run in time: the exit code is 0 if they are, 1 if not, 3 if that cannot be known."""

    help = "Say by the exit code and one line whether tasks run in time."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--max-late",
            type=float,
            default=60.0,
            help="seconds that a due task may wait, unless a limit of its handler holds it back (default 60)",
        )
        parser.add_argument(
            "--max-limited",
            type=float,
            help="seconds that a due task may wait for a limit of its handler (default: any number)",
        )
        parser.add_argument(
            "--max-failed",
            type=int,
            help="runs, in all queues, that may fail for good in an hour (default: any number)",
        )
        parser.add_argument("--executors", type=int, default=1, help="executors that must be alive (default 1)")
        parser.add_argument("--queue", action="append", help="look at this queue only; may be given several times")
        parser.add_argument("--database", default=None, help="alias of the tasks' database")

    def handle(self, *args: Any, **given: Any) -> None:
        for name in ("max_late", "max_limited"):
            if given[name] is not None and not given[name] >= 0:  # also of nan
                values = {"option": name.replace("_", "-"), "value": f"{given[name]:g}"}
                raise CommandError(_("--%(option)s=%(value)s: must not be negative") % values)
        try:
            seen = take_snapshot(given["database"])
            wrong, good = _found(seen, given)
            for queue in unnamed(database(given["database"]), given["queue"] or ()):
                self.stderr.write(_("No task, handler or executor names the queue %r: is it spelled right?") % queue)
        except TaskException as error:
            raise CommandError(str(error)) from None
        except Error as error:
            problem = text_of(error, given["database"]).partition("\n")[0] or type(error).__name__
            why = _("the database cannot be asked: %s") % problem
            self.stdout.write(f"UNKNOWN: {why}")
            sys.exit(3)
        self.stdout.write(f"UNHEALTHY: {'; '.join(wrong)}" if wrong else f"OK: {', '.join(good)}")
        if wrong:
            sys.exit(1)


def _found(seen: Snapshot, given: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the problems, and the measured values that are none."""
    queues = [
        queue
        for queue in queues_of(seen)
        if closed(seen, queue.name) is not Reason.QUEUE_PAUSED
        and (given["queue"] is None or queue.name in given["queue"])
    ]
    limited = sorted((one for queue in queues for one in queue.limited), key=lambda one: one.since)
    wrong = [
        *_executors(seen, given),
        *_late(seen, queues, given["max_late"]),
        *_without_handler(seen, given["queue"]),
        *(f"{problem.text} {problem.advice}" for problem in written_ahead(seen, given["queue"])),
        *_limited(limited, seen.now, given["max_limited"]),
    ]
    good = [_("%d alive") % len(_alive(seen, given["queue"])), *_how_late(queues, limited, given["max_late"])]
    if given["max_failed"] is not None:
        failed = sum(runs.failed for runs in rates_of(seen, timedelta(hours=1)))
        (wrong if failed > given["max_failed"] else good).append(_failed_text(failed, given["max_failed"]))
    return wrong, good


def _alive(seen: Snapshot, queues: list[str] | None) -> list[str]:
    """Return the names of the live executors; if queues are given, of executors that serve one of them."""
    return [one.name for one in seen.alive if queues is None or any(serves(one, queue) for queue in queues)]


def _executors(seen: Snapshot, given: dict[str, Any]) -> Iterator[str]:
    alive = len(_alive(seen, given["queue"]))
    if alive < given["executors"]:
        text = ngettext(
            "%(alive)d executor alive, %(needed)d needed", "%(alive)d executors alive, %(needed)d needed", alive
        )
        yield text % {"alive": alive, "needed": given["executors"]}


def _late(seen: Snapshot, queues: list[QueueBacklog], most: float) -> Iterator[str]:
    unserved = {queue.name for queue in queues if queue.due and closed(seen, queue.name)}
    late = [queue for queue in queues if queue.latency.total_seconds() > most or queue.name in unserved]
    for queue in sorted(late, key=lambda queue: -queue.latency)[:MAX_QUEUES]:
        values = {"queue": queue.name, "time": duration_text(queue.latency), "limit": f"{most:g}"}
        if queue.name in unserved:
            text = _("queue %(queue)s has no executor (%(tasks)s due, the first for %(time)s)")
            yield text % {**values, "tasks": tasks_text(queue.due)}
        else:
            yield _("queue %(queue)s late by %(time)s (limit %(limit)s s)") % values


def _without_handler(seen: Snapshot, queues: list[str] | None) -> Iterator[str]:
    for code in list(codes_without_handler(seen, queues))[:MAX_QUEUES]:
        yield _("tasks of %s wait, and no executor of their queue has a handler for them") % code


def _limited(limited: list[Limited], now: datetime, most: float | None) -> Iterator[str]:
    for one in limited[:MAX_QUEUES]:
        if most is not None and (now - one.since).total_seconds() > most:
            text = limited_text(one, _("%(tasks)s of %(code)s waiting for %(limit)s"))
            values = {"waiting": text, "time": duration_text(now - one.since), "limit": f"{most:g}"}
            yield _("%(waiting)s, the first for %(time)s (limit %(limit)s s)") % values


def _how_late(queues: list[QueueBacklog], limited: list[Limited], most: float) -> Iterator[str]:
    """Yield the measured values that are no reason for alarm."""
    latency = max((queue.latency for queue in queues if queue.is_late), default=timedelta())
    text = _("the latest task is late by %(time)s (limit %(limit)s s)")
    if not latency:
        text = _("no task is late (limit %(limit)s s)")
    yield text % {"time": duration_text(latency), "limit": f"{most:g}"}
    if tasks := sum(one.tasks for one in limited):
        text = ngettext("%s waits for a limit of its handler", "%s wait for limits of their handlers", tasks)
        yield text % tasks_text(tasks)
    if tasks := sum(queue.held_back.tasks for queue in queues if queue.held_back):
        text = ngettext(
            "%s is held back while another one runs that may have crashed an executor",
            "%s are held back while others run that may have crashed an executor",
            tasks,
        )
        yield text % tasks_text(tasks)


def _failed_text(failed: int, most: int) -> str:
    text = ngettext(
        "%(failed)d run failed in the last hour (limit %(limit)d)",
        "%(failed)d runs failed in the last hour (limit %(limit)d)",
        failed,
    )
    return text % {"failed": failed, "limit": most}

"""The arguments of ``manage.py tasks``: one sub-parser for each verb."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from django_delayed_tasks import clock
from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import IfExists
from django_delayed_tasks.support.spans import parse_moment, parse_span, parse_when

STDIN = "-"
"""The argument that stands for standard input, where a value must not be seen in the list of processes."""
STATUSES = ("pending", "running", "failed", "paused")


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read


def _parse_past(text: str) -> datetime:
    past = parse_moment(text)
    if past > clock.host_now():
        raise ValueError(_("%r is in the future; a time in the past is written as '2 hours ago'") % text)
    return past


def _parse_expiry(text: str) -> datetime | timedelta:
    parsed = parse_when(text)
    return timedelta() if parsed is None else parsed


def _parse_data(text: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if text == STDIN else text)
    except json.JSONDecodeError as error:
        text = _("this is not JSON (%(error)s); a text needs quotes: '\"hi\"'")
        raise ValueError(text % {"error": error}) from None


span = _typed(parse_span)
moment = _typed(parse_moment)
past = _typed(_parse_past)
when = _typed(parse_when)
expiry = _typed(_parse_expiry)
data = _typed(_parse_data)
WHEN = "now, a span such as 30m or '2 hours', or a date and time"


def add_arguments(parser: ArgumentParser) -> None:
    """Add a sub-parser for each verb to the command's parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (text, add) in VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        add(verb)
        verb.add_argument("--format", choices=("text", "json"), default="text", help="what is written (default text)")
        verb.add_argument("--database", help="alias of the tasks' database")


def _of_list(parser: ArgumentParser) -> None:
    parser.add_argument("--code", help="only tasks of this code")
    parser.add_argument("--status", choices=STATUSES, help="only tasks in this state")
    parser.add_argument("--queue", help="only tasks of this queue")
    parser.add_argument("--late", type=span, metavar="SPAN", help="only tasks that have been due for so long: 0s, 5m")
    _filters(parser)
    _limit(parser, 50)


def _of_next(parser: ArgumentParser) -> None:
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--queue", help="only tasks of this queue")
    text = "list the runs that are due until then, a recurring task once for each of its times"
    chosen.add_argument("--until", type=moment, metavar="WHEN", help=f"{text}: {WHEN}")
    _limit(parser, 20)


def _limit(parser: ArgumentParser, default: int) -> None:
    parser.add_argument("--limit", type=int, default=default, help=f"at most this number of tasks (default {default})")


def _filters(parser: ArgumentParser) -> None:
    parser.add_argument("--match", metavar="TEXT", help="only tasks whose number contains this text")
    parser.add_argument("--due-after", type=moment, metavar="WHEN", help=f"only tasks due then or later: {WHEN}")
    parser.add_argument("--due-before", type=moment, metavar="WHEN", help=f"only tasks due before then: {WHEN}")


def _of_one(parser: ArgumentParser) -> None:
    parser.add_argument("code", help="the task's code")
    parser.add_argument("number", help="the task's number")


def _of_add(parser: ArgumentParser) -> None:
    _of_one(parser)
    parser.add_argument("--when", type=when, metavar="WHEN", help=f"{WHEN} (default now)")
    parser.add_argument("--data", type=data, metavar="JSON", help="the task's data; - reads it from standard input")
    parser.add_argument("--queue", default="", help="its queue (default: that of its handler)")
    parser.add_argument("--priority", type=int, help="from -100 to 100 (default: that of its handler)")
    parser.add_argument("--trigger", help='makes it recur: "Cron(\'0 3 * * *\')", "Interval(minutes=5)"')
    parser.add_argument("--expires", type=expiry, metavar="WHEN", help=f"no run starts after this moment: {WHEN}")
    parser.add_argument("--once", action="store_true", help="do not add it if it has been done once before")
    exists = [mode.value for mode in IfExists]
    text = "what to do if the task exists already (default replace)"
    parser.add_argument("--if-exists", choices=exists, default=IfExists.REPLACE.value, help=text)


def _of_many(parser: ArgumentParser) -> None:
    parser.add_argument("code", help="the code of the tasks")
    parser.add_argument("number", nargs="?", help="the number of one task; without it, the filters select")
    _filters(parser)
    parser.add_argument("--all", action="store_true", help="all tasks of the code")
    parser.add_argument("--dry-run", action="store_true", help="say how many tasks are selected, and change nothing")


def _of_cancel(parser: ArgumentParser) -> None:
    _of_many(parser)
    _yes(parser)


def _of_retry(parser: ArgumentParser) -> None:
    _of_many(parser)
    text = "only tasks that failed then or later: a span in the past such as '2 hours ago', or a date and time"
    parser.add_argument("--failed-since", type=past, metavar="WHEN", help=text)


def _of_reschedule(parser: ArgumentParser) -> None:
    _of_many(parser)
    chosen = parser.add_mutually_exclusive_group()
    # For argparse, an option whose value is its default was not given, and "now" is None.
    text = f"the new time of one task: {WHEN}"
    chosen.add_argument("--when", type=when, default=UNCHANGED, metavar="WHEN", help=text)
    chosen.add_argument("--by", type=span, metavar="SPAN", help="how much later, or earlier: 2h, --by=-30m")
    _yes(parser)


def _of_retime(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say how much would be mended, and change nothing")


def _yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


VERBS: dict[str, tuple[str, Callable[[ArgumentParser], None]]] = {
    "list": ("List tasks, due ones first; failed ones newest first.", _of_list),
    "next": ("List the tasks that run next, whatever their code.", _of_next),
    "show": ("Show one task, and its last runs.", _of_one),
    "add": ("Add a task.", _of_add),
    "cancel": ("Cancel one task, or all that the filters select.", _of_cancel),
    "retry": ("Make one failed task pending again, or all that the filters select.", _of_retry),
    "run-now": ("Make a pending task due now.", _of_one),
    "reschedule": ("Give one task a new time, or move all that the filters select.", _of_reschedule),
    "retime": ("Mend times and leases that were written while the database's clock was ahead.", _of_retime),
}

"""The display of values: moments, durations, badges, JSON, tracebacks, and executors by their names."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import IntegerChoices
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.store import executors
from django_delayed_tasks.support.durations import duration_text as duration_text
from django_delayed_tasks.support.durations import milliseconds_text
from django_delayed_tasks.support.durations import number_text as number_text
from django_delayed_tasks.support.redaction import redacted
from django_delayed_tasks.support.visible import named as named

EMPTY = "-"
SHORT = 24
"""The most characters of a code that is never broken."""
MAX_INDENTED = 1_000_000
"""The most characters of JSON that is indented."""


def column(label: Any, shown: Callable[[Any], Any], ordering: str | None = None) -> Any:
    """Return the display method, of an admin, that shows this of a row."""

    @admin.display(description=label, ordering=ordering)
    def display(model_admin: Any, row: Any) -> Any:
        return shown(row)

    return display


def in_card(label: Any, shown: Callable[[Any], Any]) -> Any:
    """Return the display method of a column that has its label on narrow screens as well."""
    return column(label, lambda row: labelled(label, shown(row)))


def moment(label: Any, name: str) -> Any:
    """Return the display method of a field that is a moment."""
    return column(label, lambda row: moment_text(getattr(row, name)))


def json_of(label: Any, name: str) -> Any:
    """Return the display method of a field that is JSON."""
    return column(label, lambda row: json_block(getattr(row, name)))


def number_and_error(row: Any) -> SafeString | str:
    """Return the number of a task or a run of a list, and below it the error."""
    failure = last_line(row.error_end)
    return two_lines(named(row.biz_num), "" if failure == EMPTY else breakable(failure), "error")


def moment_text(moment: datetime | None) -> str:
    """Return the moment to the second, in the current time zone."""
    if moment is None:
        return EMPTY
    try:
        return date_format(timezone.localtime(moment), "Y-m-d H:i:s")
    except (OverflowError, ValueError):  # at the ends of the calendar, local time is out of range
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def lateness(run: TaskRun) -> timedelta | None:
    """Return how long after its time the run began; None for later attempts, whose time the history does not have."""
    if run.started is None or run.attempt > 1:
        return None
    return max(run.started - run.when, timedelta(0))


def distance_text(moment: datetime, now: datetime) -> str:
    """Return how far a moment is from now: "in 5 s" or "late by 5 s"."""
    text = duration_text(moment - now)
    return _("in %s") % text if moment > now else _("late by %s") % text


def short_text(duration: timedelta) -> str:
    """Return the duration in milliseconds if it is shorter than a second: "12 ms", "5 min 12 s"."""
    seconds = duration.total_seconds()
    return milliseconds_text(seconds) if abs(seconds) < 1 else duration_text(duration)


def two_lines(first: Any, second: Any, kind: str = "quiet") -> SafeString | str:
    """Return two lines of a cell; ``kind`` names the second one's style in admin.css."""
    return format_html('{}<span class="ddt-second ddt-{}">{}</span>', first, kind, second) if second else first


def breakable(text: str) -> SafeString:
    """Return a text that may be broken after dots and underscores if it is long, such as the path of a function."""
    shown = named(text)
    return shown if len(text) <= SHORT else mark_safe(re.sub(r"([._])(?=\w)", r"\1<wbr>", shown))


def labelled(label: Any, value: Any) -> SafeString:
    """Return a value with the label that it has on narrow screens, which show rows as cards without heads.

    A card does not show an empty value.
    """
    if value in (EMPTY, None):
        return format_html('<span class="ddt-none">{}</span>', EMPTY)
    return format_html('<span data-label="{}">{}</span>', label, value)


def badge(label: Any, kind: str) -> SafeString:
    """Return a colored label; ``kind`` names its style in admin.css."""
    return format_html('<span class="ddt-badge ddt-{}">{}</span>', kind, label)


def member_badge(members: type[IntegerChoices], value: int) -> SafeString:
    """Return the badge of a status or an outcome; for a value that only another release knows, with its number."""
    if value in members.values:
        return badge(members(value).label, members(value).name.lower())
    return badge(_("unknown (%s)") % value, "ended")


def names_text(names: Any) -> str:
    """Return a list of names on one line; a value that is not a list is shown as it is."""
    return ", ".join(map(str, names)) if isinstance(names, list) else EMPTY if names is None else str(names)


def preformatted(text: str) -> SafeString | str:
    """Return a text, such as a traceback, preformatted and escaped."""
    return format_html('<pre class="ddt-pre">{}</pre>', text) if text else EMPTY


def pretty_json(value: Any) -> str:
    """Return the value as JSON, which is indented as long as that does not make it too long (as deep nesting does)."""
    text = _indented(value) or json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate in a value that was written by other means
        return json.dumps(value)
    return text


def _indented(value: Any) -> str | None:
    chunks, length = [], 0
    for chunk in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        chunks.append(chunk)
        length += len(chunk)
        if length > MAX_INDENTED:
            return None
    return "".join(chunks)


def json_block(value: Any) -> SafeString | str:
    """Return the value as indented JSON, with secrets masked."""
    return EMPTY if value is None else preformatted(pretty_json(redacted(value)))


def last_line(text: str, limit: int = 100) -> str:
    """Return the last line of a traceback that is not empty, shortened."""
    lines = text.strip().splitlines()
    if not lines:
        return EMPTY
    return cut(lines[-1], limit)


def cut(text: str, limit: int) -> str:
    """Return the text, cut at ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def names_of(rows: Any) -> dict[int, str]:
    """Return the names of the executors of these tasks or runs, by id."""
    ids = {row.executor for row in rows} - {0, None}
    return executors.names(settings.DATABASE, ids) if ids else {}


def executor_text(row: Any) -> str:
    """Return the name of the executor of a task or a run, as long as it has a row."""
    name = row.executor_name if hasattr(row, "executor_name") else names_of([row]).get(row.executor)
    return str(name or EMPTY)


def executor_link(site: str, row: Any) -> SafeString | str:
    """Return the name of the executor of a task or a run, which leads to its page if it has a row."""
    name = row.executor_name if hasattr(row, "executor_name") else names_of([row]).get(row.executor)
    if not name:
        return executor_text(row)
    address = reverse(f"{site}:django_delayed_tasks_executor_change", args=[row.executor])
    kind = mark_safe(' class="ddt-long"') if len(name) > SHORT else ""
    return format_html('<a{} href="{}">{}</a>', kind, address, named(name))

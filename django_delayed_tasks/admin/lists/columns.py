"""How values look: moments, durations, badges, JSON, tracebacks."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.db.models import IntegerChoices
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_delayed_tasks.support.redaction import redacted

EMPTY = "-"
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def moment_text(moment: datetime | None) -> str:
    """To the second, in the current time zone."""
    if moment is None:
        return EMPTY
    try:
        return date_format(timezone.localtime(moment), "Y-m-d H:i:s")
    except (OverflowError, ValueError):  # at the ends of the calendar no other zone has such a moment
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def duration_text(duration: timedelta) -> str:
    """In the two largest units that matter: "3 d 4 h", "5 min 12 s", "0.25 s"."""
    seconds = abs(duration.total_seconds())
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = int(seconds)
    parts: list[str] = []
    for size, unit in UNITS:
        if whole >= size or parts:
            parts.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def distance_text(moment: datetime, now: datetime) -> str:
    """How far a moment is from now."""
    text = duration_text(moment - now)
    return _("in %s") % text if moment > now else _("late by %s") % text


def badge(label: Any, kind: str) -> SafeString:
    """A coloured word; ``kind`` names its style in admin.css."""
    return format_html('<span class="ddt-badge ddt-{}">{}</span>', kind, label)


def member_badge(members: type[IntegerChoices], value: int) -> SafeString:
    """The badge of a status or an outcome; of another release's, which means nothing here, the number."""
    if value in members.values:
        return badge(members(value).label, members(value).name.lower())
    return badge(_("unknown (%s)") % value, "ended")


def names_text(names: Any) -> str:
    """A list of names on one line, whatever stands in the column."""
    return ", ".join(map(str, names)) if isinstance(names, list) else EMPTY if names is None else str(names)


def preformatted(text: str) -> SafeString | str:
    """A text as it is, escaped, such as a traceback."""
    return format_html('<pre class="ddt-pre">{}</pre>', text) if text else EMPTY


def pretty_json(value: Any) -> str:
    """JSON for people."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, in what somebody typed
        return json.dumps(value, indent=2)
    return text


def json_block(value: Any) -> SafeString | str:
    """JSON, set out on lines, hidden values left out."""
    return EMPTY if value is None else preformatted(pretty_json(redacted(value)))


def last_line(text: str, limit: int = 100) -> str:
    """The last line of a traceback that says something, shortened."""
    lines = text.strip().splitlines()
    if not lines:
        return EMPTY
    return cut(lines[-1], limit)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= limit else text[: limit - 1] + "…"

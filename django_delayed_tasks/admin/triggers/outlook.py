"""The display of a trigger: its description in words, and its next times."""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_delayed_tasks.admin.lists.columns import EMPTY, duration_text
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.plans import NOTES, Plan
from django_delayed_tasks.triggers import Cron, Every, Interval, Trigger


def note_on(task: Task) -> str:
    """Return a note on the effect of a new trigger for this task; it may be empty."""
    if task.status == TaskStatus.FAILED:
        return _("The task has failed: if you save this trigger, it waits for the first of these times.")
    return str(NOTES.get(task.status, ""))


def shown(plan: Plan) -> SafeString:
    """Return the trigger in words and the table of its times, or the error if its text is not that of a trigger."""
    try:
        trigger = plan.trigger
    except InvalidTrigger as error:
        text = _("This text is not a valid trigger: the task will fail when it is claimed. Correct the text.")
        return format_html('<div class="ddt-outlook ddt-unreadable"><p>{}</p><p>{}</p></div>', text, str(error))
    paragraphs = [trigger.description, plan.note]
    if isinstance(trigger, Interval) and trigger.every == Every.FINISH:
        paragraphs.append(_("These times assume that runs take no time."))
    if trigger.longest_jitter:
        paragraphs.append(_("Each run starts up to %s later, at random.") % duration_text(trigger.longest_jitter))
    said = format_html_join("", "<p>{}</p>", ((paragraph,) for paragraph in paragraphs if paragraph))
    return format_html('<div class="ddt-outlook">{}{}</div>', said, _table(trigger, plan.times(), plan.now))


def _table(trigger: Trigger, times: list[datetime], now: datetime) -> SafeString:
    if not times:
        return format_html("<p>{}</p>", _("It has no more times."))
    zones = _zones(trigger)
    head = format_html_join("", '<th scope="col">{}</th>', ((name,) for name in zones))
    is_quick = any(later - earlier < timedelta(seconds=1) for earlier, later in pairwise(times))
    digits = "milliseconds" if is_quick else "seconds"
    rows = (
        (_("due") if moment <= now else number, _cells([_clock(moment, zone, digits) for zone in zones.values()]))
        for number, moment in enumerate(times, 1)
    )
    body = format_html_join("", "<tr><td>{}</td>{}</tr>", rows)
    return format_html(
        '<table class="ddt-times"><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table>', head, body
    )


def _cells(texts: list[str]) -> SafeString:
    return format_html_join("", "<td>{}</td>", ((text,) for text in texts))


def _zones(trigger: Trigger) -> dict[str, tzinfo]:
    """Return the time zones of the trigger and of the project (or the user), and UTC, each once, by name."""
    own = [trigger.zone] if isinstance(trigger, Cron) else []
    found: list[tzinfo] = [*own, timezone.get_current_timezone(), UTC]
    return {str(zone): zone for zone in found}


def _clock(moment: datetime, zone: tzinfo, digits: str) -> str:
    try:
        local = moment.astimezone(zone)
    except (OverflowError, ValueError):  # at the ends of the calendar, local time is out of range
        return EMPTY
    offset = local.isoformat(timespec="seconds")[19:]
    return f"{date_format(local, 'D')} {local.replace(tzinfo=None).isoformat(' ', digits)} {offset}"

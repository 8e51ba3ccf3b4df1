"""The top of a task's page: its state in a sentence, its progress, its last error."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import database_now
from django_delayed_tasks.admin.lists.tracebacks import folded
from django_delayed_tasks.admin.tasks.timeline import Event, timeline
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.why import cut_offs_text, why
from django_delayed_tasks.store import executors


@dataclass(frozen=True, slots=True)
class Summary:
    """The part of a task's page that comes before its form."""

    badge: Any
    sentence: Any
    cut_offs: str
    progress: float | None
    progress_text: str
    error: Any
    events: list[Event]
    is_moving: bool
    """Whether the task is running or due, so that the page is refreshed."""


def summary_of(admin: Any, task: Task) -> Summary:
    """Return the summary at the top of this task's page."""
    now, site = database_now(task), admin.admin_site.name
    return Summary(
        badge=admin.badge(task),
        sentence=sentence(site, task),
        cut_offs=cut_offs_text(task),
        progress=None if task.progress_fraction is None else min(max(task.progress_fraction, 0.0), 1.0),
        progress_text=admin.progress_(task),
        error=folded(task.last_error) if task.last_error else "",
        events=timeline(site, task, now),
        is_moving=task.status == TaskStatus.RUNNING or (task.status == TaskStatus.PENDING and task.claim_at <= now),
    )


def sentence(site: str, task: Task) -> SafeString | str:
    """Return the state of the task in a sentence."""
    say = {TaskStatus.RUNNING: _running, TaskStatus.FAILED: _failed, TaskStatus.PAUSED: _paused}
    return say.get(TaskStatus(task.status), _pending)(site, task) if task.status in TaskStatus.values else ""


def _running(site: str, task: Task) -> SafeString | str:
    executor = columns.executor_link(site, task)
    if not _is_alive(task.executor, database_now(task)):
        say = _("Was running on {executor}, attempt {attempt}. That executor is not alive; another one takes the task.")
        return format_html(say, executor=executor, attempt=task.attempts)
    # A cancel request and a new schedule write update_time, too: then it is not the moment of the claim.
    if task.cancel_requested_at or task.deferred_when:
        return format_html(_("Running on {executor}, attempt {attempt}."), executor=executor, attempt=task.attempts)
    time = columns.duration_text(database_now(task) - task.update_time)
    return format_html(
        _("Running for {time} on {executor}, attempt {attempt}."), time=time, executor=executor, attempt=task.attempts
    )


def _pending(site: str, task: Task) -> SafeString | str:
    now = database_now(task)
    values = {"moment": columns.moment_text(task.claim_at), "time": columns.duration_text(task.claim_at - now)}
    found = why(task, now)
    if task.claim_at > now and found:  # without a handler, executors put it off again and again
        since = max(task.when, task.create_time)
        values = {"moment": columns.moment_text(since), "time": columns.duration_text(now - since)}
    if found:
        return _("Due since %(moment)s, late by %(time)s: %(reason)s.") % {**values, "reason": found.text}
    if task.attempts:
        return _("Its next attempt is at %(moment)s, in %(time)s.") % values
    return _("Waits until %(moment)s, in %(time)s.") % values


def _is_alive(executor: int | None, now: datetime) -> bool:
    return any(peer.id == executor and peer.expires_at >= now for peer in executors.live(settings.DATABASE))


def _failed(site: str, task: Task) -> str:
    text = ngettext(
        "Failed %(time)s ago, after %(attempts)d attempt.",
        "Failed %(time)s ago, after %(attempts)d attempts.",
        task.attempts,
    )
    time = columns.duration_text(database_now(task) - task.claim_at)
    return text % {"time": time, "attempts": task.attempts}


def _paused(site: str, task: Task) -> str:
    return _("Paused: it does not run until it is resumed.")

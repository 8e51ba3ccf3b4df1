"""The timeline of a task, past and future: from its row and its history, the latest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.columns import lateness
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.records.history import CUT_OFF
from django_delayed_tasks.store.schedules.find import find_runs_of

MAX_RUNS: Final = 20
"""Runs of a task that its page shows; a link leads to all of them."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a moment, or will."""

    moment: datetime
    text: Any
    badge: Any = ""

    @property
    def moment_text(self) -> str:
        return columns.moment_text(self.moment)


def timeline(site: str, task: Task, now: datetime) -> list[Event]:
    """Return the events of this task, the latest first; of its runs the last ``MAX_RUNS``."""
    runs = _runs(task)
    events = chain(_planned(task, now), _present(site, task), (_ended(site, run) for run in runs), _first(task, runs))
    return sorted(events, key=lambda event: event.moment, reverse=True)


def _runs(task: Task) -> list[Any]:
    rows = find_runs_of(settings.DATABASE, task.biz_code, task.biz_num)
    runs: list[Any] = list(rows.defer("result", "error", "biz_ext")[:MAX_RUNS])
    names = columns.names_of(runs)
    for run in runs:
        run.executor_name = names.get(run.executor)
    return runs


def _planned(task: Task, now: datetime) -> Iterator[Event]:
    if task.status == TaskStatus.PENDING and task.claim_at > now:
        yield Event(task.claim_at, _("Can be claimed."), columns.badge(_("next"), "pending"))
    if task.deferred_when:
        yield Event(task.deferred_when, _("Its next schedule, which was added during this run."))


def _present(site: str, task: Task) -> Iterator[Event]:
    if task.cancel_requested_at:
        yield Event(task.cancel_requested_at, _("Asked to stop."), columns.badge(_("stopping"), "stopping"))
    elif task.status == TaskStatus.RUNNING and not task.deferred_when:
        yield Event(
            task.update_time,
            format_html(_("Claimed by {executor}, attempt {attempt}."), executor=columns.executor_link(site, task),
                        attempt=task.attempts),
            columns.badge(_("running"), "running"),
        )  # fmt: skip


def _ended(site: str, run: TaskRun) -> Event:
    address = reverse(f"{site}:django_delayed_tasks_taskrun_change", args=[run.pk])
    text = format_html('<a href="{}">{}</a> {}', address, _("Attempt %d") % run.attempt, _run_text(site, run))
    return Event(run.finished, text, columns.member_badge(RunOutcome, run.outcome))


def _run_text(site: str, run: TaskRun) -> SafeString | str:
    """Return where the run was, how late it began and how long it took."""
    if run.started is None and run.outcome == RunOutcome.LOST:
        is_cut_off = run.exception == CUT_OFF
        text = _("was cut off on {executor}") if is_cut_off else _("on {executor}, which ended or lost its lease")
        return format_html(text, executor=columns.executor_link(site, run))
    if run.started is None:
        return _("did not run")
    values = {"executor": columns.executor_link(site, run), "time": columns.short_text(run.finished - run.started)}
    late = lateness(run)
    if late is None:
        return format_html(_("on {executor}, took {time}"), **values)
    return format_html(_("on {executor}, {late} late, took {time}"), late=columns.short_text(late), **values)


def _first(task: Task, runs: list[Any]) -> Iterator[Event]:
    yield Event(task.create_time, _("Added."))
    known = [task.create_time, *(run.finished for run in runs)]
    if task.status in (TaskStatus.PENDING, TaskStatus.PAUSED) and task.update_time > max(known):
        yield Event(task.update_time, _("Changed."))

"""The output of ``manage.py tasks``: rows as aligned text, or as JSON; hidden values are hidden here, too."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.management.shared import aligned, padded, places
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats.plans import plan_of
from django_delayed_tasks.stats.why import cut_offs_text, told
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.preview import PlannedRun
from django_delayed_tasks.support import spans
from django_delayed_tasks.support.redaction import redacted

TASK_FIELDS = (
    "id", "biz_code", "biz_num", "status", "when", "claim_at", "queue", "priority", "biz_ext", "trigger",
    "expires_at", "attempts", "rescues", "executor", "last_error", "deferred_when", "cancel_requested_at",
    "progress_fraction", "progress_note", "version", "create_time", "update_time",
)  # fmt: skip
RUN_FIELDS = (
    "id", "outcome", "attempt", "when", "started", "finished", "executor", "result", "error", "exception",
)  # fmt: skip
_REDACTED = ("biz_ext", "result")


def task_as_dict(task: Task) -> dict[str, Any]:
    """Return the fields of a task as JSON values."""
    values = {name: getattr(task, name) for name in TASK_FIELDS if name != "trigger"}
    values |= {"status": TaskStatus(task.status).name.lower(), "trigger": task.trigger_text}
    return {name: _shown(name, values[name]) for name in TASK_FIELDS}


def run_as_dict(run: TaskRun) -> dict[str, Any]:
    """Return the fields of a run as JSON values."""
    values = {name: getattr(run, name) for name in RUN_FIELDS}
    values["outcome"] = RunOutcome(run.outcome).name.lower()
    return {name: _shown(name, value) for name, value in values.items()}


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return redacted(value) if name in _REDACTED else value


def as_json(value: Any) -> str:
    """Return the value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_table(tasks: Iterable[Task], *, failed: bool = False) -> list[str]:
    """Return a heading and a line for each task; ``failed`` says that all of them have failed."""
    claim_at = _("failed at") if failed else _("claimable from")
    heading = (_("code"), _("number"), _("status"), _("when"), claim_at, _("queue"), _("last error"))
    rows = [heading, *(_cells(task) for task in tasks)]
    return aligned(rows)


def planned_as_dict(run: PlannedRun) -> dict[str, Any]:
    """Return the fields of a planned run as JSON values."""
    return {name: _shown(name, value) for name, value in run._asdict().items()}


def planned_as_table(runs: Iterable[PlannedRun]) -> list[str]:
    """Return a heading and a line for each planned run."""
    heading = (_("claimable from"), _("code"), _("number"), _("queue"), _("attempt"), _("trigger"))
    rows = [(local(run.at), run.biz_code, run.biz_num, run.queue, str(run.attempt), run.trigger or "") for run in runs]
    return aligned([heading, *rows])


def _cells(task: Task) -> Sequence[str]:
    return (
        task.biz_code, task.biz_num, _state(task), local(task.when), local(task.claim_at), task.queue,
        _error_line(task.last_error),
    )  # fmt: skip


def _state(task: Task) -> str:
    return str(TaskStatus(task.status).label)


def _error_line(text: str) -> str:
    """Return the line of an error that says what is wrong: the last one of a traceback, else the first one."""
    error = text.strip()
    return _one_line(error.rpartition("\n")[2] if error.startswith("Traceback ") else error.partition("\n")[0])


def _one_line(text: str, longest: int = 100) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def as_text(task: Task, runs: Iterable[TaskRun], now: datetime) -> list[str]:
    """Return the lines that show one task and its runs; the fields have the names that the admin gives them.

    ``now`` is the time of the database.
    """
    fields = {name: value for name, value in task_as_dict(task).items() if value not in (None, "")}
    if task.executor:
        fields["executor"] = executor_name(task) or task.executor
    else:
        del fields["executor"]
    fields["status"] = "; ".join(filter(None, [_state(task), cut_offs_text(task), told(task, now)]))
    fields |= {name: local(value) for name, value in vars(task).items() if isinstance(value, datetime)}
    model: Any = Task._meta
    labels = {name: str(model.get_field(name).verbose_name) for name in fields}
    if task.status == TaskStatus.FAILED:
        labels["claim_at"] = _("failed at")
    values = {labels[name]: value for name, value in fields.items()}
    if times := next_times(task, now):
        values[_("next times")] = "\n".join([*map(local, times), *_note(task, now)])
    width = max(map(places, values))
    lines = [f"{padded(label, width)}  {_in_text(value, width + 2)}" for label, value in values.items()]
    return lines + [run_line(run) for run in runs]


def executor_name(task: Task) -> str | None:
    """Return the name of the executor of a running task, if it has a row."""
    return executors.names(task._state.db or "", {task.executor}).get(task.executor) if task.executor else None


def next_times(task: Task, now: datetime) -> list[datetime]:
    """Return the next times of a recurring task, a few; none if its trigger is not valid."""
    plan = plan_of(task, now)
    try:
        return plan.times(3) if plan else []
    except InvalidTrigger:
        return []


def _note(task: Task, now: datetime) -> list[str]:
    plan = plan_of(task, now)
    return [plan.note] if plan and plan.note else []


def _in_text(value: Any, indent: int) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return text.strip().replace("\n", "\n" + " " * indent)


def run_line(run: TaskRun) -> str:
    """Return when a run ended, how, and why."""
    outcome = RunOutcome(run.outcome).label
    attempt = _("attempt %d") % run.attempt
    return f"{local(run.finished)}  {outcome}  {attempt}  {_error_line(run.error)}".rstrip()


def local(moment: datetime) -> str:
    """Return a moment in the current time zone, to the second."""
    return f"{spans.local(moment):%Y-%m-%d %H:%M:%S %Z}"

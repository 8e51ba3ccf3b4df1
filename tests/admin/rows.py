"""Rows to look at, and what the pages about them are called."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.urls import reverse

from django_delayed_tasks.models import Executor, Resource, Task, TaskRun
from django_delayed_tasks.states import RunOutcome

NOW = datetime(2031, 5, 17, 9, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
CODE = "test.shop"
OTHER = "test.mail"

TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in handle\nValueError: <b>no & never</b>'


def new_task(num: str = "1", when: datetime = NOW + HOUR, **fields: Any) -> Task:
    """An unsaved row as the store would have written it."""
    given = {"biz_code": CODE, "biz_num": num, "when": when, "claim_at": max(when, NOW), "queue": "default"}
    return Task(**{**given, "priority": 0, "create_time": NOW, "update_time": NOW, "version": 4, **fields})


def task(num: str = "1", when: datetime = NOW + HOUR, **fields: Any) -> Task:
    """A row as the store would have written it."""
    row = new_task(num, when, **fields)
    row.save_base(force_insert=True)
    return row


def new_run(num: str = "1", outcome: RunOutcome = RunOutcome.DONE, **fields: Any) -> TaskRun:
    """An unsaved row of the history."""
    given = {"task_id": 1, "version": 1, "biz_code": CODE, "biz_num": num, "when": NOW, "attempt": 1}
    times = {"started": NOW, "finished": NOW + timedelta(milliseconds=250)}
    return TaskRun(**{**given, **times, "outcome": outcome, **fields})


def run(num: str = "1", outcome: RunOutcome = RunOutcome.DONE, **fields: Any) -> TaskRun:
    """A row of the history."""
    row = new_run(num, outcome, **fields)
    row.save(force_insert=True)
    return row


def executor(name: str = "web/1", **fields: Any) -> Executor:
    """A live executor."""
    times = {"started_at": NOW - HOUR, "heartbeat_at": NOW - timedelta(seconds=3), "expires_at": NOW + MINUTE}
    given = {"name": name, "host": "web.example.org", "pid": 4711, "threads": 8, "alive": True, **times}
    return Executor.objects.create(**{**given, **fields})


def list_of(model: str) -> str:
    """The address of a list: "task", "taskrun" or "executor"."""
    return reverse(f"admin:django_delayed_tasks_{model}_changelist")


def page_of(row: Task | TaskRun | Executor | Resource, view: str = "change") -> str:
    """The address of a row's page."""
    return reverse(f"admin:django_delayed_tasks_{row._meta.model_name}_{view}", args=[row.pk])

"""Enumerations: the status of a task, the outcome of a run, the result of a call (docs/explanation/design.md)."""

from enum import StrEnum
from typing import Literal
from uuid import UUID

from django.db.models import IntegerChoices
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class TaskStatus(IntegerChoices):
    """The status of a live task. *Due* is not a status but a query: PENDING and ``claim_at <= now``."""

    PENDING = 0, _("pending")
    RUNNING = 1, _("running")
    FAILED = 2, _("failed")
    PAUSED = 3, _("paused")


class RunOutcome(IntegerChoices):
    """The outcome of one run, as the history records it."""

    DONE = 0, _("done")
    RESCHEDULED = 1, _("rescheduled")
    RETRIED = 2, _("retried")
    FAILED = 3, _("failed")
    CANCELLED = 4, _("cancelled")
    LOST = 5, _("lost")
    EXPIRED = 6, _("expired")


class ExecutorStatus(IntegerChoices):
    """The state of an executor, as written by itself, or by another executor that saw its lease run out."""

    RUNNING = 0, pgettext_lazy("executor", "running")
    STOPPING = 1, _("stopping")
    STOPPED = 2, _("stopped")
    CRASHED = 3, _("crashed")


class NextState(StrEnum):
    """The next state of a task whose claim ends, unless a deferred schedule or a cancel request overrides it."""

    GONE = "gone"
    AGAIN = "again"
    RECUR = "recur"
    RETRY = "retry"
    FAILED = "failed"
    RESCUED = "rescued"
    RELEASED = "released"


class IfExists(StrEnum):
    """The action of ``add_task`` when a task of the same identity exists."""

    REPLACE = "replace"
    KEEP = "keep"
    RAISE = "raise"
    EARLIEST = "earliest"
    LATEST = "latest"


BizNum = str | int | UUID
"""The types that callers may give as the ``biz_num`` of a task: an int and a UUID are stored as ``str()`` of them."""

IfExistsName = Literal["replace", "keep", "raise", "earliest", "latest"]
"""The values of :class:`IfExists` as callers write them."""


class AddAction(StrEnum):
    """The action that ``add_task`` took."""

    CREATED = "created"
    REPLACED = "replaced"
    KEPT = "kept"
    DEFERRED = "deferred"
    FILTERED = "filtered"


class CancelResult(StrEnum):
    """The state that ``cancel_task`` found, and its action; false if it is MISSING."""

    CANCELLED = "cancelled"
    STOPPING = "stopping"
    MISSING = "missing"

    def __bool__(self) -> bool:
        return self is not CancelResult.MISSING


class KeepHistory(StrEnum):
    """Which runs of a handler leave a row in the history."""

    ALL = "all"
    FAILURES = "failures"
    NONE = "none"

"""``make_task``: a claimed task, with which a test calls a handler directly."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.api import database
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.handlers import TaskHandler, find
from django_delayed_tasks.handlers.functions import Code, code_named
from django_delayed_tasks.states import BizNum
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, is_lost
from django_delayed_tasks.store.records.progress import Report, report_of
from django_delayed_tasks.store.validation import absolute, valid_json, valid_new_identity, valid_trigger, valid_when
from django_delayed_tasks.triggers import Trigger


@dataclass(slots=True, eq=False)
class MadeTask(ClaimedTask):
    """A claimed task that has no row, and notes what its handler asks and reports.

    Attributes:
        cancel_requested: whether the run is asked to stop; a test may set it.
        reports: what the handler has passed to :meth:`progress`, in order.
        claim_checks: how often it has called :meth:`check_claim`.
    """

    cancel_requested: bool = False
    reports: list[Report] = field(default_factory=list, repr=False)
    claim_checks: int = field(default=0, repr=False)

    @property
    def fencing_token(self) -> int:
        """The token that the task was made with."""
        return self.version

    def check_claim(self) -> None:
        """Note the call.

        Raises:
            ClaimLost: the task was made with ``claim_lost``.
        """
        self.claim_checks += 1
        if is_lost(self):
            raise ClaimLost(f"{self}: the claim is gone")

    def progress(self, fraction: float, note: str = "") -> None:
        """Note the report in ``reports``.

        Raises:
            InvalidTask, ClaimLost: as in a run.
        """
        ClaimedTask.progress(self, fraction, note)
        self.reports.append(report_of(fraction, note))


def make_task(
    code: Code,
    num: BizNum = "1",
    *,
    when: datetime | timedelta | None = None,
    biz_ext: Any = None,
    attempts: int = 1,
    queue: str | None = None,
    priority: int | None = None,
    trigger: Trigger | str | None = None,
    expires_at: datetime | None = None,
    once: bool = False,
    resource: Any = None,
    cancel_requested: bool = False,
    claim_lost: bool = False,
    fencing_token: int = 1,
    using: str | None = None,
) -> MadeTask:
    """Return a task as a handler gets it, to call the handler with; nothing is written to the database.

    What is not given is what an executor would pass with the first attempt of a task that has just become due.

    Args:
        code: a code, a handler or the function of one.
        when: the time that the run stands for; a timedelta counts from now.
        biz_ext: the data; the handler gets them as they would come back from the database.
        resource: what the run finds at ``task.resource``, such as a ``SimpleNamespace(name=…, payload=…)``.
        claim_lost: whether ``check_claim()`` and ``progress()`` raise ClaimLost.

    Raises:
        InvalidTask: a value that ``add_task`` does not accept.
    """
    biz_code, biz_num = valid_new_identity(code_named(code), num)
    handler = find(biz_code) or TaskHandler
    recurs_at = valid_trigger(None if trigger is None else str(trigger))
    return MadeTask(
        id=1,
        version=fencing_token,
        biz_code=biz_code,
        biz_num=biz_num,
        when=absolute(valid_when(when), clock.host_now()),
        _data=valid_json(biz_ext, settings.MAX_BIZ_EXT_BYTES),
        queue=handler.queue if queue is None else queue,
        priority=handler.priority if priority is None else priority,
        attempts=attempts,
        rescues=0,
        alias=database(using),
        executor=1,
        _trigger_text=None if recurs_at is None else str(recurs_at),
        expires_at=expires_at,
        once=once,
        _is_lost=claim_lost,
        resource=resource,
        cancel_requested=cancel_requested,
    )

"""The reasons for which a due task does not run, and those that hold for a whole queue or code."""

from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.models import Task
from django_delayed_tasks.stats.snapshot import LATE, Snapshot
from django_delayed_tasks.store.claiming.waiting import Waiting
from django_delayed_tasks.store.settling.settlement import LOOK_AGAIN
from django_delayed_tasks.store.sql.lanes import is_limited


class Reason(TextChoices):
    """A reason to wait: a name for programs, and a text for people, which may have places for values."""

    CODE_WITHOUT_HANDLER = "code_without_handler", _("no executor of its queue has a handler for its code")
    QUEUE_PAUSED = "queue_paused", _("its queue is paused")
    NO_EXECUTOR = "no_executor", _("no executor is alive")
    QUEUE_UNSERVED = "queue_unserved", _("no executor serves its queue")
    KEY = "key", _("blocked: a task of its key %(key)s is running, or the key's rate allows no start yet")
    POOL = (
        "pool",
        _("waits for a resource of the pool %(pool)r: %(free)d free, %(leased)d leased, %(disabled)d disabled"),
    )
    LIMITED = "limited", _("it waits for %s; more executors will not help")
    HELD_BACK = (
        "held_back",
        _("it is held back while other tasks run that were taken from dead executors: one of them may be the cause"),
    )
    BUSY = "busy", _("it waits for an executor. %s")
    LIMITED_OR_BUSY = "limited_or_busy", _("it waits for an executor, or for a limit of its code")
    UNCLAIMED = "unclaimed", _("it waits for an executor")


@dataclass(frozen=True, slots=True)
class Why:
    """Why one task does not run; ``text`` is in the language that is active."""

    reason: Reason
    text: str


def closed(seen: Snapshot, queue: str) -> Reason | None:
    """Return why no task of a queue is claimed now; None if its tasks are."""
    if queue in seen.paused:
        return Reason.QUEUE_PAUSED
    if not seen.alive:
        return Reason.NO_EXECUTOR
    return None if seen.serving(queue) else Reason.QUEUE_UNSERVED


def lacks_handler(seen: Snapshot, task: Task | Waiting) -> bool:
    """Return whether the task's queue is served, and no executor that serves it has a handler for the task's code."""
    if closed(seen, task.queue):
        return False
    return not any(task.biz_code in (one.codes or ()) for one in seen.serving(task.queue))


def was_refused(seen: Snapshot, task: Task | Waiting) -> bool:
    """Return whether an executor has looked for the handler of this task, which is due, and found none.

    It postpones the task by a time of its own; one that has limits it leaves in its lane.
    """
    if is_limited(task.lane):
        return task.claim_at <= seen.now - 2 * LATE  # a heartbeat tells which functions an executor has imported
    return abs((task.claim_at - task.update_time).total_seconds() - LOOK_AGAIN) < 0.1

"""The models: tasks, runs, executors, resources. ``store`` has every write to their rows; nothing here writes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, cast
from uuid import UUID

from django.db import models
from django.db.models.expressions import Combinable
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.fields import (
    CODE_LENGTH,
    POOL_LENGTH,
    QUEUE_LENGTH,
    AnyJSONField,
    ExactCharField,
    LaneField,
    TriggerField,
)
from django_delayed_tasks.models.rollups import Overview, Statistic
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from django_delayed_tasks.triggers import MAX_TEXT

__all__ = [
    "CODE_LENGTH", "EARLIEST", "EXCEPTION_LENGTH", "LATEST", "NAME_LENGTH", "NOTE_LENGTH", "NUM_LENGTH", "POOL_LENGTH",
    "QUEUE_LENGTH", "TRIGGER_LENGTH",
    "Executor", "Overview", "PausedQueue", "Recurrence", "Resource", "Statistic", "Success", "Task", "TaskRun",
    "Waiter",
]  # fmt: skip


EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""The range of moments that every database can store."""
NUM_LENGTH = 255
"""Characters of a number: the index of identities fits into the 3072 bytes of MariaDB and MySQL."""
LANE_LENGTH = CODE_LENGTH + 34
NAME_LENGTH = 150
"""Characters of the name of an executor or a resource: a host's name may have 64."""
NOTE_LENGTH = 200
"""Characters of the note of a progress report: a line on a page."""
EXCEPTION_LENGTH = 255
"""Characters of the dotted path of an exception's class."""
TRIGGER_LENGTH = MAX_TEXT


_ADDING = "cannot add tasks, which need more than their fields: use add_task(Task(…))"
_CHANGING = (
    "cannot change tasks, whose columns follow each other: use reschedule_task, add_task, pause_task or retry_tasks"
)


def _refused(call: str, why: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise TaskException(f"Task{call}() {why}")

    refuse.alters_data = True  # type: ignore[attr-defined]
    return refuse


class TaskQuerySet(models.QuerySet["Task"]):
    """Tasks to read. Django's ways to add rows are refused: they would lack what the functions of the API fill in.

    ``Task._base_manager`` has them, for rows that are exactly as given. ``update()`` and ``delete()`` change rows
    exactly as they say.
    """

    create = _refused(".objects.create", _ADDING)
    bulk_create = _refused(".objects.bulk_create", _ADDING)
    get_or_create = _refused(".objects.get_or_create", _ADDING)
    update_or_create = _refused(".objects.update_or_create", _ADDING)


class Task(models.Model):
    """A live task: still to be done, or being done, or failed and waiting for a person.

    ``when`` is the time that the caller, the run or the trigger gave the task; retries and rescues do not change it.
    ``claim_at`` is the moment from which the row may next be claimed. The columns
    ``deferred_*`` hold a schedule that arrived while the task was running; it takes effect when the run ends. The
    columns ``progress_*`` hold the last report of the current run.
    """

    id = models.BigAutoField(primary_key=True)
    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH)
    # An unsaved task may have an int or a UUID: add_task writes it as its text.
    biz_num: "models.CharField[str | int | UUID, str]" = cast(Any, ExactCharField(_("number"), max_length=NUM_LENGTH))
    # An unsaved task may have an offset from now, or None for at once: add_task turns it into a moment.
    when: "models.DateTimeField[datetime | timedelta | str | Combinable | None, datetime]" = models.DateTimeField(
        _("when"), db_column="when_time"
    )
    biz_ext = AnyJSONField(_("data"), null=True, blank=True)
    queue = ExactCharField(_("queue"), max_length=QUEUE_LENGTH)
    priority = models.SmallIntegerField(_("priority"))

    trigger = TriggerField(
        _("trigger"), db_column="trigger_text", max_length=TRIGGER_LENGTH, null=True, blank=True, default=None
    )
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    once = models.BooleanField(_("once"), null=True, editable=False)
    by_handler = models.BooleanField(_("by its handler"), null=True, editable=False)
    trace = ExactCharField(_("trace"), max_length=55, null=True, editable=False)  # type: ignore[misc]
    pause_requested = models.BooleanField(_("pause requested"), null=True, editable=False)

    status = models.SmallIntegerField(_("status"), choices=TaskStatus, default=TaskStatus.PENDING, editable=False)
    # What the task waits for; see store/sql/lanes.py.
    lane = LaneField(_("lane"), max_length=LANE_LENGTH, default="", db_default="", editable=False)
    claim_at = models.DateTimeField(_("claimable from"), editable=False)
    version = models.BigIntegerField(_("version"), default=0, editable=False)
    attempts = models.IntegerField(_("attempts"), default=0, editable=False)
    rescues = models.IntegerField(_("rescues"), default=0, editable=False)
    # New rows have 0: a row that grows when it is claimed, as from NULL, may split its page (docs/decisions/0011).
    executor = models.BigIntegerField(_("executor"), null=True, default=0, editable=False)
    last_error = models.TextField(_("last error"), blank=True, default="", editable=False)

    deferred_when = models.DateTimeField(_("deferred until"), null=True, editable=False)
    deferred_biz_ext = AnyJSONField(null=True, editable=False)
    deferred_queue = ExactCharField(max_length=QUEUE_LENGTH, default="", editable=False)
    deferred_priority = models.SmallIntegerField(null=True, editable=False)
    deferred_trigger_text = models.CharField(max_length=TRIGGER_LENGTH, null=True, editable=False)
    deferred_expires_at = models.DateTimeField(null=True, editable=False)
    deferred_once = models.BooleanField(null=True, editable=False)
    deferred_trace = ExactCharField(max_length=55, null=True, editable=False)  # type: ignore[misc]
    # The deferred schedule brings no data of its own: the next run gets what this one leaves.
    deferred_keeps_ext = models.BooleanField(null=True, editable=False)
    cancel_requested_at = models.DateTimeField(_("cancel requested"), null=True, editable=False)

    progress_fraction = models.FloatField(_("progress"), null=True, editable=False)
    progress_note = models.CharField(_("progress note"), max_length=NOTE_LENGTH, null=True, editable=False)
    progress_at = models.DateTimeField(_("progress reported"), null=True, editable=False)

    create_time = models.DateTimeField(_("created"), editable=False)
    update_time = models.DateTimeField(_("updated"), editable=False)

    objects = TaskQuerySet.as_manager()

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        constraints = [
            models.UniqueConstraint(fields=["biz_code", "biz_num"], name="ddt_task_identity"),
            # A moment that Python cannot read would stop all claiming: PostgreSQL accepts 'infinity', SQLite any text.
            models.CheckConstraint(
                name="ddt_task_moments",
                condition=models.Q(when__range=(EARLIEST, LATEST), claim_at__range=(EARLIEST, LATEST))
                & (models.Q(deferred_when=None) | models.Q(deferred_when__range=(EARLIEST, LATEST))),
            ),
        ]
        indexes = [
            models.Index(fields=["status", "lane", "queue", "priority", "claim_at", "id"], name="ddt_task_claim"),
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to write the row, as :class:`TaskQuerySet` does."""
        _refused("(…).save", _ADDING if self._state.adding else _CHANGING)()

    save.alters_data = True  # type: ignore[attr-defined]

    @property
    def trigger_text(self) -> str | None:
        """The trigger's text as it is stored, even if it cannot be parsed."""
        attribute: Any = type(self).trigger
        text: str | None = attribute.text(self)
        return text

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num}"


class TaskRun(models.Model):
    """The history: one row for each run that ended, purged from the lowest primary key upwards.

    ``exception`` is the dotted path of the class of the exception that ended the run. ``biz_ext`` holds the data of a
    task that was cancelled while it waited, of one that has ended, if its handler has ``keep_data``, and otherwise of a
    run that failed, if they are small.
    """

    id = models.BigAutoField(primary_key=True)
    task_id: Any = models.BigIntegerField(_("task"), db_index=True)
    version = models.BigIntegerField(_("version"))
    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH)
    biz_num = ExactCharField(_("number"), max_length=NUM_LENGTH)
    when = models.DateTimeField(_("when"), db_column="when_time")
    attempt = models.IntegerField(_("attempt"))
    outcome = models.SmallIntegerField(_("outcome"), choices=RunOutcome)
    started = models.DateTimeField(_("started"), null=True)
    finished = models.DateTimeField(_("finished"))
    result = AnyJSONField(_("result"), null=True)
    error = models.TextField(_("error"), blank=True, default="")
    exception = ExactCharField(_("exception"), max_length=EXCEPTION_LENGTH, null=True)  # type: ignore[misc]
    biz_ext = AnyJSONField(_("data"), null=True)
    executor = models.BigIntegerField(_("executor"), null=True)

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        indexes = [models.Index(fields=["biz_code", "biz_num"], name="ddt_run_identity")]

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num} #{self.attempt}"


class Success(models.Model):
    """An identity that was added with ``once=True`` and has been done: it is not done again."""

    id = models.BigAutoField(primary_key=True)
    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH)
    biz_num = ExactCharField(_("number"), max_length=NUM_LENGTH)
    succeeded_at = models.DateTimeField(_("succeeded"))

    class Meta:
        verbose_name = _("success")
        verbose_name_plural = _("successes")
        constraints = [models.UniqueConstraint(fields=["biz_code", "biz_num"], name="ddt_success_identity")]

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num}"


class PausedQueue(models.Model):
    """A paused queue: no executor claims any of its tasks until it is resumed."""

    queue = ExactCharField(_("queue"), max_length=QUEUE_LENGTH, primary_key=True)
    paused_at = models.DateTimeField(_("paused"))

    class Meta:
        verbose_name = _("paused queue")
        verbose_name_plural = _("queues")

    def __str__(self) -> str:
        return self.queue


class Recurrence(models.Model):
    """The trigger that the handler of a code declares, according to the executor that declared it last."""

    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH, primary_key=True)
    trigger_text = models.CharField(_("trigger"), max_length=TRIGGER_LENGTH)
    declared_at = models.DateTimeField(_("declared"))

    class Meta:
        verbose_name = _("recurrence")
        verbose_name_plural = _("recurrences")

    def __str__(self) -> str:
        return f"{self.biz_code}: {self.trigger_text}"


class Executor(models.Model):
    """One OS process that claims and runs tasks; each registration adds a row under the executor's stable name.

    ``alive`` is True or NULL, never False: NULLs are distinct in a unique constraint, so a name has at most one live
    row. It decides who owns claims; ``status``, ``version`` and ``host_time`` are for people, and NULL in a row that an
    older release wrote. ``host_time`` is what the host's clock showed at the last heartbeat.
    ``expires_at`` of a row that is not alive is the moment at which it ended, or at which its crash was noticed.
    """

    id = models.BigAutoField(primary_key=True)
    name = ExactCharField(_("name"), max_length=NAME_LENGTH)
    host = models.CharField(_("host"), max_length=255)
    pid = models.BigIntegerField(_("pid"))
    queues = AnyJSONField(_("queues"), null=True)
    exclude_queues = AnyJSONField(_("excluded queues"), null=True)
    codes = AnyJSONField(_("codes"), default=list)
    threads = models.IntegerField(_("threads"))
    started_at = models.DateTimeField(_("started"))
    heartbeat_at = models.DateTimeField(_("heartbeat"))
    expires_at = models.DateTimeField(_("lease until"))
    alive = models.BooleanField(_("alive"), null=True)
    status = models.SmallIntegerField(_("status"), choices=ExecutorStatus, null=True)
    version = ExactCharField(_("version"), max_length=50, null=True)  # type: ignore[misc]
    host_time = models.DateTimeField(_("clock of the host"), null=True)

    class Meta:
        verbose_name = _("executor")
        verbose_name_plural = _("executors")
        constraints = [models.UniqueConstraint(fields=["name", "alive"], name="ddt_executor_name_alive")]
        # Each heartbeat reads the live rows, and housekeeping the ended ones by age: neither scans the other's rows.
        indexes = [models.Index(fields=["alive", "expires_at"], name="ddt_executor_lease")]

    def __str__(self) -> str:
        return f"{self.name} ({self.host}, {self.pid})"


class Resource(models.Model):
    """A resource that is leased to one holder at a time; a mutex is a resource, too.

    It is free if it is enabled and ``busy_before`` has passed. Nothing has to free it: the lease of a holder that died
    simply expires. A released resource has the moment of its release in ``busy_before``, so the lease index returns
    free resources least recently used first; one that was never used has 1970. ``version`` grows with each acquisition.
    It starts at the milliseconds since 1970, so that it does not go back if the row is deleted and added again.
    """

    id = models.BigAutoField(primary_key=True)
    pool = ExactCharField(_("pool"), max_length=POOL_LENGTH + CODE_LENGTH)  # of limits: a prefix and a code
    name = ExactCharField(_("name"), max_length=NAME_LENGTH)
    payload = AnyJSONField(_("payload"), null=True, blank=True)
    state = AnyJSONField(_("state"), null=True, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    busy_before = models.DateTimeField(_("busy until"))
    version = models.BigIntegerField(_("version"))

    holder = ExactCharField(_("holder"), max_length=64, blank=True, default="")
    host = models.CharField(_("host"), max_length=255, blank=True, default="")
    pid = models.BigIntegerField(_("pid"), null=True)
    acquired_at = models.DateTimeField(_("acquired"), null=True)
    renewed_at = models.DateTimeField(_("renewed"), null=True)
    task_id: Any = models.BigIntegerField(_("task"), null=True)
    task_version = models.BigIntegerField(_("claim"), null=True)

    class Meta:
        verbose_name = _("resource")
        verbose_name_plural = _("resources")
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="ddt_resource_identity")]
        indexes = [models.Index(fields=["pool", "enabled", "busy_before", "id"], name="ddt_resource_lease")]

    def __str__(self) -> str:
        return f"{self.pool} {self.name}"


class Waiter(models.Model):
    """A place in the wait queue for a resource, renewed while its caller waits; waiters are served in id order."""

    id = models.BigAutoField(primary_key=True)
    pool = ExactCharField(_("pool"), max_length=POOL_LENGTH)
    name = ExactCharField(_("name"), max_length=NAME_LENGTH, blank=True, default="")
    expires_at = models.DateTimeField(_("until"))

    class Meta:
        verbose_name = _("waiter")
        verbose_name_plural = _("waiters")
        indexes = [models.Index(fields=["pool", "name", "id"], name="ddt_waiter_queue")]

    def __str__(self) -> str:
        return f"{self.pool} {self.name} {self.pk}"
